"""``variorum label``: every row keeps its place and gets a label or none, and is held against people's labels."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli import models
from tests.cli.verbs import answered
from variorum.cli import main
from variorum.text.corpora import sentiment


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny decoder and encoder, snippets of two domains, and a sample of them with their labels."""
    place = tmp_path_factory.mktemp("label")
    models.llama(place / "llama")
    models.bert(place / "bert")
    snippets = sentiment()[::40]
    movies, tweets = ([one for one in snippets if one.domain == name] for name in ("movie", "tweet"))
    chosen = [one for pair in zip(movies[:60], tweets[:60], strict=True) for one in pair]
    for name, rows, columns in (
        ("data", chosen[:40], ["id", "text"]), ("gold", chosen[40:80], ["text", "label"]),
        ("test", chosen[80:120], ["text", "label"]),
    ):  # fmt: skip
        with (place / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            cells = ({"id": one.id, "text": one.text, "label": one.domain} for one in rows)
            writer.writerows({name: row[name] for name in columns} for row in cells)
    return place


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.mechanism("G5")
@pytest.mark.mechanism("D4")
def test_a_table_is_labelled_and_held_against_people(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = place / "labelled.jsonl"
    words = ["label", str(place / "data.csv"), "--model", str(place / "llama"), "--labels", "movie, tweet"]
    words += ["--gold", str(place / "gold.csv"), "--few-shot", "4", "--max-length", "24", "--out", str(out)]
    found = answered(capsys, *words, "--test", str(place / "test.csv"), "--seeds", "2")
    assert (found["rows"], found["labelled"], found["withheld"]) == (40, 40, 0)
    assert found["agreement"]["items"] == found["agreement"]["answered"] == 36  # 4 of 40 were shown
    assert found["agreement"]["kappa"]["low"] <= found["agreement"]["kappa"]["value"]
    assert [one["name"] for one in found["worth"]] == ["gold only", "model only", "both"]
    given, made = rows(place / "data.csv"), [json.loads(line) for line in out.read_text().splitlines()]
    assert [(one["id"], one["text"]) for one in made] == [(one["id"], one["text"]) for one in given]
    assert {one["label"] for one in made} <= {"movie", "tweet"}
    assert all(0.5 <= float(one["confidence"]) <= 1 for one in made)


def test_people_read_figures_and_a_table(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["label", str(place / "data.csv"), "--model", str(place / "bert"), "--labels", "movie,tweet"]
    words += ["--gold", str(place / "gold.csv"), "--test", str(place / "test.csv"), "--seeds", "2"]
    assert main([*words, "--by", "description", "--max-length", "20", "--out", str(place / "seen.jsonl")]) == 0
    out = capsys.readouterr().out
    assert "agreement on 40 of 40 rows labelled by people" in out
    assert "kappa " in out and "gold only" in out and "both" in out


def test_a_bad_row_keeps_its_place_and_an_unsure_one_gets_no_label(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "data.jsonl", tmp_path / "out.jsonl"
    data.write_text('{"text": "a film"}\nno JSON\n{"text": "another"}\n')
    words = ["label", str(data), "--model", str(place / "bert"), "--labels", "movie,tweet", "--margin", "0.999"]
    assert main([*words, "--out", str(out), "--format", "json"]) == 0
    found = json.loads((shown := capsys.readouterr()).out)
    assert "line 2" in shown.err
    assert (found["withheld"], found["labelled"], found["bad_rows"]) == (2, 0, 1)
    made = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["text"] for one in made] == ["a film", "", "another"]
    assert made[0]["label"] is None and made[0]["confidence"] >= 0.5
    assert "line 2" in made[1]["error"]


def test_labels_have_words_of_their_own(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "words.json").write_text('{"m": "movie", "t": "tweet"}')
    (tmp_path / "template.json").write_text('{"question": "{text}", "answer": "is a"}')
    found = []
    for labels, more in (("movie,tweet", ()), ("m,t", ("--words", str(tmp_path / "words.json")))):
        out = tmp_path / f"{labels[0]}.jsonl"
        words = ["label", str(place / "data.csv"), "--model", str(place / "bert"), "--labels", labels, *more]
        answered(capsys, *words, "--template", str(tmp_path / "template.json"), "--max-length", "20", "--out", str(out))
        found.append([json.loads(line)["label"] for line in out.read_text().splitlines()])
    assert [{"movie": "m", "tweet": "t"}[one] for one in found[0]] == found[1]


def test_what_cannot_be_done_is_said_in_a_line(place: Path, tmp_path: Path, refuse: Callable[..., str]) -> None:
    base = ["label", str(place / "data.csv"), "--model", str(place / "llama"), "--out", str(tmp_path / "out.csv")]
    assert "--gold" in refuse(*base, "--labels", "a,b", "--few-shot", "2", code=2)
    assert "at least two" in refuse(*base, "--labels", "a", code=2)
    assert "not asked for" in refuse(*base, "--labels", "movie,other", "--gold", str(place / "gold.csv"), code=3)
    assert "column" in refuse(*base, "--labels", "a,b", "--label-column", "id", code=2)
    assert "column 'body'" in refuse(*base, "--labels", "a,b", "--text-column", "body", code=3)
    (tmp_path / "words.json").write_text('{"c": "d"}')
    assert "no label is called" in refuse(*base, "--labels", "a,b", "--words", str(tmp_path / "words.json"), code=3)
    assert "no such file" in refuse(*base, "--labels", "a,b", "--template", str(tmp_path / "absent.json"), code=3)
    assert not (tmp_path / "out.csv").exists()
