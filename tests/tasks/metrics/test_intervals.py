"""Intervals over items and seeds hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

from variorum.tasks.metrics.classes import macro_f1_of
from variorum.tasks.metrics.correlation import agreement, spearman_of
from variorum.tasks.metrics.intervals import difference, mean_of, over_items, over_seeds, ratio_of

RNG = np.random.default_rng(0)


def test_macro_f1_of_a_sample_is_scikit_learns() -> None:
    truth, given = RNG.integers(0, 4, 200), RNG.integers(0, 4, 200)
    figure = macro_f1_of(np.eye(4, dtype=bool)[given], np.eye(4, dtype=bool)[truth])
    for _ in range(5):
        which = RNG.integers(0, 200, 200)
        counts = np.bincount(which, minlength=200)[None]
        assert figure(counts)[0] == pytest.approx(f1_score(truth[which], given[which], average="macro"))


def test_the_interval_of_a_mean_covers_it() -> None:
    covered = 0
    for draw in range(100):
        found = over_items(mean_of(RNG.random(100) < 0.7), 100, seed=draw)
        covered += found.low <= 0.7 <= found.high
    assert covered >= 88


def test_two_models_are_compared_on_the_same_items() -> None:
    hard = RNG.random(400)
    one, other = mean_of(hard < 0.62), mean_of(hard < 0.60)
    found = difference(one, other, 400)
    assert found.low >= 0
    assert found.high - found.low < over_items(one, 400).high - over_items(one, 400).low


def test_a_ratio_of_sums_weighs_items_by_what_they_hold() -> None:
    assert over_items(ratio_of([1, 0, 9], [1, 1, 10]), 3).value == pytest.approx(10 / 12)
    assert ratio_of([0], [0])(np.ones((1, 1), dtype=np.int64))[0] == 0


def test_students_interval_over_three_seeds_by_hand() -> None:
    found = over_seeds([0.8, 0.9, 1.0])
    assert found.value == pytest.approx(0.9)
    assert found.high - found.value == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-5)
    assert over_seeds([0.5]).low == -np.inf


def test_correlations_by_hand() -> None:
    found = agreement(np.array([1.0, 2, 3, 5]), np.array([2.0, 1, 3, 9]))
    assert found["spearman"] == pytest.approx(0.8)
    assert found["mean_absolute"] == pytest.approx(6 / 4)
    assert spearman_of(np.array([1.0, 2, 3, 5]), np.array([2.0, 1, 3, 9]))(np.ones((1, 4), int))[0] == pytest.approx(
        0.8
    )
    assert agreement(np.ones(3), np.arange(3.0))["pearson"] is None
