"""``variorum distil``: one command from a trained classifier to a smaller one, with what it keeps."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from variorum import tasks
from variorum.cli import main
from variorum.tasks.classify import Classifier
from variorum.text.corpora import sentiment


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("distil")
    movies, tweets = ([one for one in sentiment() if one.domain == name][:80] for name in ("movie", "tweet"))
    chosen = [one for pair in zip(movies, tweets, strict=True) for one in pair]
    with (place / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "domain"), *((one.text, one.domain) for one in chosen)])
    model = Classifier("nano", epochs=2, learning_rate=1e-3, max_length=24, validation=0)
    model.fit([one.text for one in chosen], [one.domain for one in chosen]).save(place / "teacher")
    return place


@pytest.mark.mechanism("Z11")
def test_three_lessons_are_compared_at_equal_steps_and_the_whole_one_is_kept(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["distil", str(place / "teacher"), str(place / "rows.csv"), "--student", "1", "--columns", "label=domain"]
    words += ["--out", str(place / "student"), "--compare", "--epochs", "1", "--format", "json"]
    assert main(words) == 0
    rows = {row["model"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == ["teacher", "hard", "soft", "both"]
    assert rows["both"]["parameters"] < rows["teacher"]["parameters"]
    assert all(row["kept_low"] <= row["kept"] <= row["kept_high"] for row in rows.values())
    assert tasks.load(place / "student").model_.spec.architecture.main.depth == 1


def test_what_was_not_trained_for_a_task_teaches_nobody(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["distil", str(place), str(place / "rows.csv"), "--student", "1", "--out", str(place / "none")]
    assert main(words) == 3
    assert "no task was trained here" in capsys.readouterr().err
    assert not (place / "none").exists()
