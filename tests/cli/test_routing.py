"""From labels to a model, to its unsure answers, to people and back: each row once, whoever ends in between."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from variorum.cli import main
from variorum.tasks.queue import Queue
from variorum.tasks.registry import load
from variorum.text.corpora import sentiment

SETTINGS = ["--model", "nano", "--epochs", "2", "--learning-rate", "1e-3", "--max-length", "32"]


def written(path: Path, rows: Sequence[dict[str, str]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of films against tweets that leaves its least certain fifth to people, and new rows."""
    place = tmp_path_factory.mktemp("routing")
    chosen = [one for one in sentiment()[::4] if one.domain in ("movie", "tweet")]
    movies, tweets = ([one for one in chosen if one.domain == name] for name in ("movie", "tweet"))
    rows = [
        {"id": one.id, "text": one.text, "label": one.domain, "sure": "0.5"}
        for pair in zip(movies[:500], tweets[:500], strict=True)
        for one in pair
    ]
    written(place / "train.csv", rows[:800])
    written(place / "new.csv", [{"id": one["id"], "text": one["text"]} for one in rows[800:]])
    words = ["train", "classify", str(place / "train.csv"), "--out", str(place / "model"), *SETTINGS]
    assert main([*words, "--budget", "0.2", "--weight-column", "sure"]) == 0
    return place


@pytest.mark.mechanism("X")
def test_unsure_rows_wait_for_people_and_teach_the_next_model(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, new, queue = str(place / "model"), str(place / "new.csv"), place / "queue.jsonl"
    words = ["predict", model, new, "--queue", str(queue), "--id-column", "id", "--out", str(place / "out.jsonl")]
    assert main(words) == 0
    answers = [json.loads(line) for line in (place / "out.jsonl").read_text().splitlines()]
    left = [one for one in answers if one["abstained"]]
    assert 10 <= len(left) <= 80  # about a fifth of 200
    assert f"{len(left)} rows were added" in capsys.readouterr().err
    assert main(words) == 0
    assert "0 rows were added" in capsys.readouterr().err
    items = Queue(queue).waiting()
    assert [one["id"] for one in items] == [one["id"] for one in left]
    assert [one["text"] for one in items] == [one["text"] for one in left]
    Queue(queue).answer({one["id"]: "tweet" for one in items[:5]})
    again = ["train", "classify", str(place / "train.csv"), "--out", str(place / "again"), *SETTINGS]
    assert main([*again, "--add", str(queue)]) == 0
    assert "5 answered items" in capsys.readouterr().err
    assert load(place / "again").history_.examples == load(place / "model").history_.examples + 5


@pytest.mark.mechanism("X")
def test_a_trained_model_keeps_the_profile_that_monitor_compares_with(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(load(place / "model").profile_.signals) == 160  # the fifth that was neither learned from nor held out
    assert main(["monitor", str(place / "model"), str(place / "new.csv"), "--format", "jsonl"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one["signal"] for one in found} == {"language", "label", "length", "unknown", "confidence", "vectors"}


def test_weights_and_items_that_are_none_are_refused(place: Path, tmp_path: Path, refuse: Callable[..., str]) -> None:
    bad = written(
        tmp_path / "bad.csv", [{"text": "a", "label": "b", "sure": "very"}, {"text": "c", "label": "d", "sure": "1"}]
    )
    words = ["train", "classify", bad, "--out", str(tmp_path / "model")]
    assert "'very' is no weight" in refuse(*words, "--weight-column", "sure", code=7)
    assert "no column" in refuse(*words, "--weight-column", "weight", code=3)
    assert not (tmp_path / "model").exists()
