"""``variorum bench`` tells what a model costs on a user's own texts, and refuses what it cannot measure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli import models, verbs


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.bert(tmp_path_factory.mktemp("bench") / "bert")


def test_an_encoder_reads_the_texts_of_a_file(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "texts.csv"
    source.write_text("note\nThe Law\nits application\n")
    rows = verbs.answered(capsys, "bench", str(bert), "--file", str(source), "--column", "note", "--rounds", "1")
    found = {(row["figure"], row["unit"]): row["value"] for row in rows}
    assert set(found) == {
        ("load", "seconds"), ("one text, median", "seconds"), ("one text, 95 % within", "seconds"),
        ("all texts", "texts/s"), ("all texts", "tokens/s"), ("peak memory of the process", "bytes"),
    }  # fmt: skip
    assert found["all texts", "tokens/s"] > found["all texts", "texts/s"] > 0


def test_without_texts_those_that_ship_are_read(bert: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = verbs.said(capsys, "bench", str(bert), "--rounds", "1")
    assert "64 texts, float32, on cpu" in said
    assert "texts/s" in said


def test_a_writer_in_int8_tells_its_pace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = models.llama(tmp_path / "llama")
    words = ("bench", str(place), "--text", models.TEXT, "--new-tokens", "2", "--weights", "int8")
    said = verbs.said(capsys, *words)
    assert "text written" in said
    assert "1 text, int8 weights, prepared, on cpu" in said


def test_what_makes_no_sense_is_refused(bert: Path, refuse: Callable[..., str]) -> None:
    assert "nothing is measured" in refuse("bench", str(bert), "--rounds", "0", code=2)
    assert "float32" in refuse("bench", str(bert), "--weights", "int8", "--dtype", "bfloat16", code=2)
    assert "no text" in refuse("bench", str(bert), "--text", "", code=2)
