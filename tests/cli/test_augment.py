"""``variorum augment`` and ``learning-curve`` on real snippets: what they write, and what they say of it."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.cli import models
from tests.cli.verbs import answered, listed, said
from variorum.text import train_wordpiece_by_frequency
from variorum.text.corpora import Snippet, sentiment


def written(path: Path, rows: Sequence[Snippet]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "text", "label"), *((one.id, one.text, one.domain) for one in rows)])
    return str(path)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many films and few tweets to learn from, both to judge by, and a masked language model of their words."""
    place = tmp_path_factory.mktemp("augment")
    chosen = [one for one in sentiment()[::10] if one.domain in ("movie", "tweet")]
    movies, tweets = ([one for one in chosen if one.domain == name] for name in ("movie", "tweet"))
    written(place / "train.csv", [*movies[:60], *tweets[:12]])
    written(place / "test.csv", [*movies[60:120], *tweets[12:72], tweets[0]])
    tokenizer = train_wordpiece_by_frequency([one.text for one in chosen], 3000)
    models.made(place / "bert", "bert", models.BERT, "masked_lm", tokenizer)
    return place


@pytest.mark.mechanism("X")
def test_a_rare_class_grows_and_the_gain_is_told(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test, out = (str(place / name) for name in ("train.csv", "test.csv", "more.csv"))
    words = ["augment", train, "--model", str(place / "bert"), "--evaluation", test, "--out", out, "--share", "0.5"]
    found = answered(capsys, *words, "--gain", "--seeds", "2")
    assert found["before"] == {"movie": 60, "tweet": 12}
    assert found["after"]["movie"] == 60 and found["variants"] == found["after"]["tweet"] - 12
    assert 10 <= found["variants"] <= 18
    assert found["near_evaluation_rows"] >= 1  # of the tweet that is in both tables
    assert [one["name"] for one in found["gain"]] == ["without variants", "with variants"]
    with (place / "more.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["label"] for row in rows) == found["after"]
    assert [row["id"] for row in rows[72:]] == [""] * found["variants"]
    shown = said(capsys, *words)
    assert "movie 60, tweet 12" in shown and "variants" in shown


def test_what_cannot_be_augmented_is_refused(place: Path, refuse: Callable[..., str]) -> None:
    train = str(place / "train.csv")
    words = ["augment", train, "--model", str(place / "bert"), "--evaluation", train, "--out", str(place / "no.csv")]
    assert "share" in refuse(*words, "--share", "2", code=2)
    assert "--by translate" in refuse(*words, "--back", str(place / "bert"), code=2)
    assert "no column" in refuse(*words, "--label-column", "domain", code=3)


@pytest.mark.mechanism("X")
def test_a_curve_for_each_class(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "learning-curve",
        str(place / "train.csv"),
        "--test",
        str(place / "test.csv"),
        "--shares",
        "0.3",
        "0.6",
        "1",
    ]
    found = listed(capsys, *words)
    assert [one["label"] for one in found] == ["movie", "tweet"]
    assert [point["items"] for point in found[0]["points"]] == [18, 36, 60]
    assert all(one["low"] <= one["gain"] <= one["high"] for one in found)
    shown = said(capsys, "learning-curve", str(place / "test.csv"), "--seeds", "2")
    assert "gain by twice" in shown and "tweet" in shown


def test_what_is_no_curve_is_refused(place: Path, refuse: Callable[..., str]) -> None:
    assert "shares" in refuse("learning-curve", str(place / "train.csv"), "--shares", "0.5", "1", code=2)
    assert "seeds" in refuse("learning-curve", str(place / "train.csv"), "--seeds", "1", code=2)
