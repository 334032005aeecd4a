"""``variorum monitor``: silent on rows like those it knows, exit 6 and the signals' names on others."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.cli.verbs import answered, listed
from variorum.cli import main
from variorum.tasks.classify import Classifier
from variorum.tasks.registry import load
from variorum.text.corpora import Snippet, sentiment


def written(path: Path, rows: Sequence[Snippet]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "domain"), *((one.text, one.domain) for one in rows)])
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier of films against tweets, held-out rows of both, and rows that are nearly all of one."""
    place = tmp_path_factory.mktemp("monitor")
    chosen = [one for one in sentiment()[::3] if one.domain in ("movie", "tweet")]
    movies, tweets = ([one for one in chosen if one.domain == name] for name in ("movie", "tweet"))
    train = movies[:300] + tweets[:300]
    model = Classifier("nano", epochs=2, learning_rate=1e-3, max_length=32, validation=0)
    model.fit([one.text for one in train], [one.domain for one in train]).save(place / "model")
    held = [one for pair in zip(movies[300:720], tweets[300:720], strict=True) for one in pair]
    written(place / "held.csv", held[:600])
    written(place / "same.csv", held[600:])
    written(place / "other.csv", [*movies[720:920], *tweets[720:740]])
    return place


@pytest.mark.mechanism("X")
def test_a_profile_is_kept_with_the_model_and_drift_is_told(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, same = str(place / "model"), str(place / "same.csv")
    assert main(["monitor", model, same]) == 3
    assert "--reference" in capsys.readouterr().err
    assert main(["monitor", model, same, "--reference", str(place / "held.csv"), "--keep", "--format", "jsonl"]) == 0
    first = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["signal"] for one in first] == ["language", "label", "length", "unknown", "confidence", "vectors"]
    assert not any(one["drifted"] for one in first)
    again = listed(capsys, "monitor", model, same)  # by the profile in the directory
    assert [one["p"] for one in again] == pytest.approx([one["p"] for one in first], abs=1e-3)
    assert main(["monitor", model, str(place / "other.csv"), "--format", "jsonl"]) == 6
    out, err = capsys.readouterr()
    found = {one["signal"]: one for one in map(json.loads, out.splitlines())}
    assert found["label"]["drifted"] and found["label"]["psi"] > 0.25
    assert "label" in err and err.count("\n") == 1
    profile = load(model).profile_
    assert len(profile.signals) == 600
    assert {"movie", "tweet"} == set(profile.signals.kinds["label"])


@pytest.mark.mechanism("X")
def test_a_rehearsal_counts_false_alarms_and_shifts_found(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["monitor", str(place / "model"), str(place / "held.csv"), "--rehearse", "40", "--size", "200"]
    found = answered(capsys, *words, "--shift", "0.3", "--label-column", "domain")
    assert found["items"] == 600 and found["windows"] == 40
    assert found["false_alarms"] <= 0.05
    assert found["found"] >= 0.9


def test_what_is_no_trained_model_is_refused(place: Path, tmp_path: Path, refuse: Callable[..., str]) -> None:
    assert "variorum.json" in refuse("monitor", str(tmp_path), str(place / "same.csv"), code=3)
    model, same = str(place / "model"), str(place / "same.csv")
    assert "no column 'body'" in refuse("monitor", model, same, "--columns", "text=body", code=3)
    assert "no column 'topic'" in refuse("monitor", model, same, "--rehearse", "9", "--label-column", "topic", code=3)
