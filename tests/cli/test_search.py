"""Lines of a file are found by a query, and an index is kept up to date with its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import variorum
from tests.cli import models
from tests.cli.verbs import answered, refused, said
from variorum.cli import main

LINES = ["The Law will never be perfect", "", "its application should be just", "nothing else", "its Law"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.bert(tmp_path_factory.mktemp("search") / "bert")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    return path


def test_lines_are_found_by_cosine_with_their_numbers(
    bert: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answered(capsys, "search", LINES[2], "the Law", "--file", str(corpus), "--model", str(bert), "--top-k", "2")
    assert [(row["query"], row["rank"]) for row in found] == [
        (LINES[2], 1),
        (LINES[2], 2),
        ("the Law", 1),
        ("the Law", 2),
    ]
    assert (found[0]["line"], found[0]["text"]) == (3, LINES[2])
    assert found[0]["score"] == pytest.approx(1, abs=1e-5)
    vectors = variorum.load(bert).embed(["the Law", *filter(None, LINES)])
    assert found[2]["score"] == pytest.approx(float((vectors[1:] @ vectors[0]).max()), abs=1e-5)
    table = said(capsys, "search", LINES[2], "--file", str(corpus), "--model", str(bert))
    assert table.splitlines()[1].split()[1] == "3"


def test_rows_of_a_table_are_named_by_their_lines(
    bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "a.csv"
    table.write_text('note,id\n"two\nlines",1\nits Law,2\n', "utf-8")
    (found,) = answered(
        capsys, "search", "its Law", "--file", str(table), "--column", "note", "--model", str(bert), "--top-k", "1"
    )
    assert (found["line"], found["text"]) == (4, "its Law")


def test_an_index_follows_its_file(
    bert: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("search", "its Law", "--model", str(bert), "--index", str(tmp_path / "index"), "--top-k", "1")
    first = answered(capsys, *words, "--file", str(corpus))
    assert answered(capsys, *words) == first
    corpus.write_text("a new line\n" + corpus.read_text("utf-8"), "utf-8")
    assert main([*words, "--file", str(corpus), "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("1 of 5 texts were not in ")
    assert [row["line"] for row in json.loads(out)] == [6]
    assert answered(capsys, *words) == json.loads(out)


def test_what_cannot_be_searched_is_refused(
    bert: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus.write_text("\n \n", "utf-8")
    for words, code, says in (
        (("a",), 2, "nothing to search"),
        (("a", "--index", str(tmp_path / "none")), 2, "nothing to search"),
        (("a", "--index", str(bert)), 3, "index.json"),
        (("a", "--file", str(corpus)), 2, "holds no text"),
        (("--file", str(corpus)), 2, "nothing to look for"),
    ):
        found, line = refused(capsys, "search", *words, "--model", str(bert))
        assert found == code
        assert says in line
