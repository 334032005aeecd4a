"""A bake-off: rows held out by document, models beside TF-IDF, and a report of what they are worth and cost."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.tools.command import refused, variorum
from variorum.errors import UsageError
from variorum.study.labelled import Wanted, declare, shipped, table


@pytest.fixture(scope="module")
def snippets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows, path = shipped(train=700, test=200), tmp_path_factory.mktemp("rows") / "snippets.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label", "document"))
        labels = (*rows.train_labels, *rows.test_labels)
        for i, (text, label) in enumerate(zip((*rows.train, *rows.test), labels, strict=True)):
            writer.writerow((text, rows.classes[label], f"d{i // 2}"))
    return path


def test_documents_and_texts_fall_on_one_side(snippets: Path):
    rows = table(str(snippets), text="text", label="label", document="document")
    assert not set(rows.train) & set(rows.test)
    assert len(rows.train) + len(rows.test) + rows.dropped == 900
    assert 0.1 < len(rows.test) / 900 < 0.3
    assert sorted(set(rows.groups)) == list(range(max(rows.groups) + 1))
    assert rows == table(str(snippets), text="text", label="label", document="document")


def test_every_model_meets_the_baseline_and_the_first_meets_all(snippets: Path, tmp_path: Path):
    rows = table(str(snippets), text="text", label="label")
    declared = declare(Wanted(models=("nano", "nano:roberta"), seeds=3), rows, tmp_path, keep=False)
    [study] = declared.studies
    assert [(c.better, c.worse) for c in study.claims] == [
        ("model1", "tfidf"),
        ("model2", "tfidf"),
        ("model1", "model2"),
    ]
    assert len(declared.cells) == 1 + 2 * 3 and len({cell.data for cell in declared.cells}) == 1
    assert study.looks == (3,) and declare(Wanted(models=("nano",)), rows, tmp_path).studies[0].looks == (5, 8, 12)


def test_what_makes_no_bake_off_is_refused(snippets: Path, tmp_path: Path):
    rows = table(str(snippets), text="text", label="label")
    for wanted in (Wanted(models=()), Wanted(models=("nano", "nano")), Wanted(models=("nano",), seeds=1)):
        with pytest.raises(UsageError):
            declare(wanted, rows, tmp_path)
    few = tmp_path / "few.csv"
    few.write_text("text,label\n" + "".join(f"a{i},{i % 2}\n" for i in range(50)), "utf-8")
    with pytest.raises(UsageError, match="some 300 rows"):
        table(str(few), text="text", label="label")


def test_the_command_reports_scores_and_seconds(snippets: Path, tmp_path: Path):
    words = (
        "study",
        "bakeoff",
        str(snippets),
        "--models",
        "nano",
        "--seeds",
        "2",
        "--epochs",
        "1",
        "--max-length",
        "16",
    )
    variorum(*words, "--out", str(tmp_path), timeout=600)
    found = json.loads((tmp_path / "result.json").read_text("utf-8"))
    [study] = found["studies"]
    assert [arm["name"] for arm in study["arms"]] == ["tfidf", "model1"]
    assert study["claims"][0]["verdict"] == "exploratory"
    cells = {(cell["arm"], cell["seed"]): cell["facts"] for cell in study["cells"]}
    assert 0 < cells["model1", 0]["answer_seconds"] <= cells["model1", 0]["answer_seconds_95"] < 10
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "TF-IDF baseline" in page and "Learning curves" not in page


def test_mistakes_are_one_line(tmp_path: Path):
    out = ("--out", str(tmp_path))
    assert "no such file" in refused("study", "bakeoff", "none.csv", "--models", "nano", *out, code=3).lower()
