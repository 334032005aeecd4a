"""What is told of a model's speed is what its calls took, in the units that it says."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import variorum
from tests.cli import models
from variorum.errors import UsageError
from variorum.inference.speed import Effort, speed

PAUSE = 0.01


class Encoding:
    def __init__(self, text: str) -> None:
        self.ids = list(range(len(text.split())))


class Words:
    """A tokenizer of words."""

    model_max_length = None

    def encode_batch(self, texts: Sequence[str], max_length: int | None = None) -> list[Encoding]:
        return [Encoding(text) for text in texts]


class Sleeper:
    """A reader that takes a hundredth of a second for each text, and counts what it is asked."""

    def __init__(self) -> None:
        self.tokenizer, self.asked = Words(), 0

    def embed(self, texts: Sequence[str]) -> torch.Tensor:
        self.asked += 1
        time.sleep(PAUSE * len(texts))
        return torch.zeros(len(texts), 2)


def test_a_reader_that_takes_a_hundredth_of_a_second_a_text_reads_a_hundred_texts_a_second() -> None:
    sleeper = Sleeper()
    texts = ["one two three", "four", "five six"]
    found = {(one.figure, one.unit): one.value for one in speed(lambda: sleeper, texts, Effort(singles=5, rounds=2))}
    assert sleeper.asked == 1 + 5 + 2, "the first call warms up and is not timed"
    # Sleeping takes at least as long as asked, on a busy machine longer.
    assert PAUSE <= found["one text, median", "seconds"] <= found["one text, 95 % within", "seconds"]
    assert found["all texts", "texts/s"] <= 1 / PAUSE
    assert found["all texts", "tokens/s"] == pytest.approx(2 * found["all texts", "texts/s"])
    assert found["peak memory of the process", "bytes"] > 10e6


def test_a_writer_tells_its_first_token_and_its_pace(tmp_path: Path) -> None:
    place = models.gpt2(tmp_path / "gpt2")
    effort = Effort(singles=6, rounds=1, new_tokens=4)
    found = speed(lambda: variorum.load(place), [models.TEXT, models.SHORT], effort)
    assert [(one.figure, one.unit) for one in found] == [
        ("load", "seconds"), ("first token, median", "seconds"), ("first token, 95 % within", "seconds"),
        ("prompt read", "tokens/s"), ("text written", "tokens/s"), ("peak memory of the process", "bytes"),
    ]  # fmt: skip
    assert all(one.value > 0 for one in found)


def test_nothing_to_read_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(UsageError, match="no text"):
        speed(lambda: pytest.fail("loaded"), ["", ""])
