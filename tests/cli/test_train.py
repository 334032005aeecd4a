"""``variorum train``, ``predict`` and ``evaluate``: figures beside a baseline, and no row lost or shifted."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.cli.verbs import answered
from variorum import tasks
from variorum.cli import main

QUICK = ("--epochs", "4", "--batch-size", "8", "--learning-rate", "1e-3", "--max-length", "16")
HEADER = ["id", "text", "label"]


def written(place: Path, rows: Sequence[Sequence[str]], header: Sequence[str] = HEADER) -> Path:
    with place.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return place


def animals(count: int) -> list[list[str]]:
    return [[str(i), f"{word} number {i % 7}", word[:3]] for i in range(count) for word in ("cat purrs", "dog barks")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("train")
    data = written(place / "rows.csv", animals(60))
    assert main(["train", "classify", str(data), "--out", str(place / "model"), *QUICK, "--format", "json"]) == 0
    return place


def test_a_model_stands_beside_its_baselines_with_intervals(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "classify", str(trained / "rows.csv"), "--out", str(tmp_path / "model"), *QUICK, "--seeds", "2"]
    capsys.readouterr()
    assert main([*words, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    model, *simple = json.loads(out)
    assert model["model"] == "nano"
    assert model["seeds"] == 2
    assert model["seed_low"] <= model["seed_mean"] <= model["seed_high"]
    assert model["rows"] == 24
    assert simple
    for row in (model, *simple):
        assert row["low"] <= row["macro_f1"] <= row["high"]
    # Words alone tell these classes apart, so nothing can be better, and that is what it says.
    assert "the model does not beat" in err or "the model is worse than" in err
    kept = tasks.load(tmp_path / "model")
    assert kept.figures_["macro_f1"] == model["macro_f1"]
    assert "epoch 4 of 4" in err
    assert "macro f1" in (tmp_path / "model" / "README.md").read_text("utf-8")


@pytest.mark.case("V053")
def test_every_row_keeps_its_place_whatever_is_wrong_with_it(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A byte-order mark, CRLF, quotes, a line break in a cell, an empty text, a ragged row, a blank line, equal ids."""
    content = (
        'id,text,label\r\n1,"cat, purrs",cat\r\n1,"dog ""barks""",dog\r\n3,"cat\npurrs",cat\r\n4,,dog\r\n5\r\n\r\n'
        f"7,{'cat purrs ' * 100_000},null\r\n"
    )
    data = tmp_path / "odd.csv"
    data.write_bytes(b"\xef\xbb\xbf" + content.encode())
    capsys.readouterr()
    words = ["predict", str(trained / "model"), str(data), "--out", str(tmp_path / "out.jsonl"), "--format", "json"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert "odd.csv, line 7: 1 cell for 3 columns" in err
    assert (found["rows"], found["failed"]) == (6, 1)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == ["1", "1", "3", "4", "", "7"]
    assert [row.get("predicted_label") for row in rows][:3] == ["cat", "dog", "cat"]
    assert rows[2]["text"] == "cat\npurrs"
    assert rows[3]["predicted_label"] in ("cat", "dog")
    assert "1 cell for 3 columns" in rows[4]["error"]
    assert rows[5]["predicted_label"] == "cat"


def test_texts_come_from_stdin_and_columns_by_other_names(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"cat purrs\ndog barks\n")))
    found = answered(capsys, "predict", str(trained / "model"), "-")
    assert [row["label"] for row in found] == ["cat", "dog"]
    data = written(tmp_path / "other.csv", [row[1:] for row in animals(5)], ["body", "kind"])
    figures = answered(
        capsys, "evaluate", str(trained / "model"), str(data), "--columns", "text=body", "label=kind"
    )  # fmt: skip
    assert figures["macro_f1"] == 1.0
    assert figures["low"] <= 1.0 <= figures["high"]


def test_labels_that_were_not_learned_are_told(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = written(tmp_path / "rows.csv", [*animals(4), ["9", "horse neighs", "horse"], ["10", "cow", "NA"]])
    capsys.readouterr()
    assert main(["evaluate", str(trained / "model"), str(data), "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["unseen"] == 2
    assert "2 rows have a label that was not learned; they count as wrong" in err


def test_numbers_are_learned_and_a_cell_that_is_none_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [[f"good {'good ' * (i % 5)}", str(i % 5)] for i in range(60)]
    data = written(tmp_path / "rows.csv", [*rows, ["fine", "seven"]], ["text", "score"])
    capsys.readouterr()
    assert main(["train", "number", str(data), "--out", str(tmp_path / "model"), *QUICK, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert "line 62: 'seven' is no number" in err
    assert json.loads(out)[0]["spearman"] > 0.3


@pytest.mark.parametrize(
    ("rows", "words", "code", "says"),
    [
        (animals(9), ["--label-column", "lable"], 3, "no column 'lable'"),
        (animals(1)[:1], [], 2, "every row has the label 'cat'"),
        ([["1", f"cat {i}", "cat"] for i in range(9)], [], 2, "every row has the label 'cat'"),
        ([["1", "", "cat"]], [], 7, "not one row can be used"),
        ([], [], 7, "no row"),
        (animals(9), ["--seeds", "0"], 2, "0 seeds train nothing"),
        (animals(9), ["--epochs", "0"], 2, "epochs is 0"),
        (animals(9), ["--adapt", "lore:8"], 3, "did you mean lora"),
        (animals(9), ["--model", "no/model"], 3, "not in the cache"),
        (animals(9), ["--risk", "2"], 2, "a risk of 2"),
    ],
)
def test_what_cannot_be_trained_is_one_clear_line(
    rows: list[list[str]], words: list[str], code: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = written(tmp_path / "rows.csv", rows)
    capsys.readouterr()
    quick = [] if "--epochs" in words else ["--epochs", "1"]
    assert main(["train", "classify", str(data), "--out", str(tmp_path / "model"), *quick, *words]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not (tmp_path / "model").exists()


def test_nothing_is_trained_for_a_place_that_is_taken(tmp_path: Path, refuse: Callable[..., str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    data = written(tmp_path / "rows.csv", animals(9))
    assert "thesis.tex" in refuse("train", "classify", str(data), "--out", str(tmp_path / "mine"), code=2)


def test_what_was_not_trained_predicts_nothing(tmp_path: Path, refuse: Callable[..., str]) -> None:
    data = written(tmp_path / "rows.csv", animals(2))
    assert "holds no variorum.json" in refuse("predict", str(tmp_path), str(data), code=3)
    assert "is not role=name" in refuse("evaluate", str(tmp_path), str(data), "--columns", "body", code=2)
    assert "cannot write rows" in refuse("predict", str(tmp_path), str(data), "--out", "x.xlsx", code=2)
