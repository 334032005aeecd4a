"""Slips of the finger: as many as were asked for, the same each time, and nothing but letters."""

from __future__ import annotations

import random

import pytest

from variorum.study.mistyped import mistyped, noisy

TEXT = "The quick brown fox jumps over the lazy dog, 42 times a day. " * 40


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_so_many_letters_are_hit_and_nothing_else(share: float):
    made = mistyped(TEXT, share, random.Random(1))
    assert [one for one in made if not one.isalpha()] == [one for one in TEXT if not one.isalpha()]
    letters = mistyped("q " * 20_000, share, random.Random(2)).split(" ")
    seen = sum(one != "q" for one in letters[:-1]) / 20_000
    assert seen == pytest.approx(share * (1 - 1 / 4 - 1 / 4 / 26), rel=0.05)  # nothing to swap with; the letter itself


def test_the_same_rows_are_hit_the_same_way_whatever_they_are():
    rows = [("a pair", "of texts"), ("b", "c")]
    assert noisy(rows, 0.3) == noisy(rows, 0.3) and noisy(rows, 0.0) == tuple(rows)
    assert all(isinstance(row, tuple) and len(row) == 2 for row in noisy(rows, 0.9))
    sentence = [["one", "word", "I"]] * 50
    assert all(len(row) == 3 and all(row) for row in noisy(sentence, 0.9)), "no word is lost"
