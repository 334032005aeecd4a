"""Vectors and texts are learned from tables by commands, with a baseline beside them, and used by commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.verbs import answered
from tests.tasks import writers
from variorum.cli import main

WORDS = {"one": "uno", "two": "dos", "three": "tres", "four": "cuatro"}


def done(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[dict[str, object]], str]:
    """The rows that a command prints, and what it says beside them."""
    assert main([*words, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    return json.loads(out), err


def table(path: Path, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    path.write_text("\n".join(",".join(row) for row in (columns, *rows)) + "\n", "utf-8")
    return str(path)


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> str:
    return writers.t5(tmp_path_factory.mktemp("train") / "t5", [*WORDS, *WORDS.values(), "yes no text: "])


@pytest.mark.mechanism("O13")
def test_texts_are_learned_predicted_and_judged(t5: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = table(tmp_path / "a.csv", ("from", "to"), list(WORDS.items()) * 5)
    place = str(tmp_path / "model")
    rows, said = done(
        capsys, "train", "seq2seq", data, "--out", place, "--model", t5, "--source-column", "from", "--target-column",
        "to", "--epochs", "1", "--prefix", "say: ", "--max-target-length", "6", "--num-beams", "2",
    )  # fmt: skip
    assert [row["model"] for row in rows] == [t5, "first sentence of the source", "copy of the source"]
    assert all(row["low"] <= row["chrf"] <= row["high"] for row in rows)
    assert "copy of the source" in said
    found = answered(capsys, "predict", place, data)
    assert [row["from"] for row in found] == list(WORDS) * 5
    assert all("target" in row for row in found)
    judged = answered(capsys, "evaluate", place, data)
    assert judged["low"] <= judged["chrf"] <= judged["high"]
    written = answered(capsys, "translate", place, *WORDS)
    assert [row["written"] for row in written] == [row["target"] for row in found[:4]]


@pytest.mark.mechanism("H5")
def test_vectors_are_learned_with_and_without_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        (f"{a} {b}", f"{WORDS[a]} {WORDS[b]}", str(i + j)) for i, a in enumerate(WORDS) for j, b in enumerate(WORDS)
    ]
    data = table(tmp_path / "a.csv", ("text1", "text2", "alike"), rows)
    for extra, figure, simple in (
        ((), "recall_at_1", "TF-IDF, the nearest"), (("--score-column", "alike"), "spearman", "TF-IDF cosine"),
    ):  # fmt: skip
        place = str(tmp_path / figure)
        found, said = done(capsys, "train", "embed", data, "--out", place, "--epochs", "1", *extra)
        assert next(iter(found[0].items()))[0] == "model" and list(found[0])[1] == figure
        assert [row["model"] for row in found[1:]] == [simple] and simple in said
        assert figure == "spearman" or all(row["low"] <= row[figure] <= row["high"] for row in found)
        assert figure in answered(capsys, "evaluate", place, data)
        assert len(answered(capsys, "predict", place, data)) == 16
        page = answered(capsys, "report", place, data, "--train", data, "--out", str(tmp_path / f"{figure}-page"))
        written = json.loads((tmp_path / f"{figure}-page" / "report.json").read_text("utf-8"))
        assert page["rows"] == 16 and list(written["baselines"]) == [simple] and written["worst"]
        assert written["figures"][0]["name"] == figure.replace("_", " ")
        both, _ = done(capsys, "distil", place, data, "--test", data, "--student", "1", "--out", f"{place}-1")
        assert [row["model"] for row in both] == ["teacher", "student"] and figure in both[1]
    words = ("search", "one two", "--file", data, "--column", "text2", "--model", str(tmp_path / "spearman"))
    assert len(answered(capsys, *words)) == 5


@pytest.mark.mechanism("H4")
def test_labels_are_learned_as_words(t5: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = table(tmp_path / "a.csv", ("words", "label"), [("one", "yes"), ("two", "no")] * 10)
    place = str(tmp_path / "model")
    found, _ = done(
        capsys, "train", "text-to-text", data, "--out", place, "--model", t5, "--columns", "text=words",
        "--epochs", "1", "--template", "is {text} it?",
    )  # fmt: skip
    assert found[0]["macro_f1"] <= 1
    assert {row["label"] for row in answered(capsys, "predict", place, data)} <= {"yes", "no"}
