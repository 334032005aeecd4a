"""``variorum report``: from a trained directory and rows to a page, with a baseline and slices."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.verbs import answered, refused
from variorum.tasks.classify import Classifier
from variorum.text.corpora import sentiment


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report")
    movies, tweets = ([one for one in sentiment() if one.domain == name][:200] for name in ("movie", "tweet"))
    chosen = [one for pair in zip(movies, tweets, strict=True) for one in pair]
    for name, rows in (("train", chosen[:300]), ("test", chosen[300:])):
        with (place / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            lines = [(one.text, one.domain, "loved" if one.rating > 0 else "not") for one in rows]
            csv.writer(file).writerows([("snippet", "label", "rated"), *lines])
    for seed in (0, 1):
        model = Classifier("nano", epochs=2, learning_rate=1e-3, max_length=24, random_state=seed)
        model.fit([one.text for one in chosen[:300]], [one.domain for one in chosen[:300]]).save(place / f"model{seed}")
    return place


def test_two_seeds_a_baseline_and_a_column_make_a_page(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(
        capsys, "report", str(place / "model0"), str(place / "test.csv"), "--out", str(place / "out"), "--train",
        str(place / "train.csv"), "--seeds", str(place / "model1"), "--slices", "rated", "--columns", "text=snippet",
    )  # fmt: skip
    assert found["rows"] == 100 and Path(found["page"]).is_file()
    written = json.loads((place / "out" / "report.json").read_text())
    assert any(name.startswith("TF-IDF") for name in written["baselines"])
    assert len(written["figures"][0]["by_seed"]) == 2
    assert {"rated", "length"} <= {one["by"] for one in written["slices"]}
    assert "--slices rated" in written["command"]


def test_a_column_that_is_not_there_is_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = refused(capsys, "report", str(place / "model0"), str(place / "test.csv"), "--out", str(place / "no"))
    assert code == 3 and "text" in line
    assert not (place / "no").exists()
