"""Intervals and verdicts: worked by hand, and in simulation at least as wide as they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from variorum.errors import UsageError
from variorum.study.statistics import Claim, corrected_alpha, detectable, judge, seeds_to_decide
from variorum.tasks.metrics.paired import BOUNDED, Components, crossed, jackknifed, mean_squares, quantile_t

CLAIM = Claim(name="A beats B", better="a", worse="b", metric="loss")


def test_the_two_way_mean_squares_of_a_table_worked_by_hand():
    # rows are seeds, columns items; row means 2, 4; column means 1, 3, 5; grand mean 3
    table = np.array([[0.0, 2.0, 4.0], [2.0, 4.0, 6.0]])
    ms_seed, ms_item, ms_residual = mean_squares(table)
    assert ms_seed == pytest.approx(3 * ((2 - 3) ** 2 + (4 - 3) ** 2) / 1)  # 6
    assert ms_item == pytest.approx(2 * ((1 - 3) ** 2 + 0 + (5 - 3) ** 2) / 2)  # 8
    assert ms_residual == pytest.approx(0.0)  # an additive table leaves nothing over


def test_the_half_width_joins_both_variances_each_with_its_own_quantile():
    parts = crossed([[0.0, 2.0, 4.0], [2.0, 4.0, 6.0]])
    assert parts.mean == pytest.approx(3.0)
    assert parts.v_seed == pytest.approx(6 / 6)
    assert parts.v_item == pytest.approx(8 / 6)
    # t(1 df, 0.05) = 12.706, a fifth more for two seeds; t(2 df, 0.05) = 4.303: any table of the t distribution
    assert parts.half_width(0.05) == pytest.approx(math.sqrt((1.2 * 12.706) ** 2 * 1 + 4.303**2 * 8 / 6), rel=1e-4)


def test_item_variance_is_never_negative():
    checkerboard = [[1.0, -1.0], [-1.0, 1.0]]  # all interaction, no item effect
    assert crossed(checkerboard).v_item == 0.0


def test_the_jackknife_of_a_mean_gives_back_the_variance_of_a_mean():
    values = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0])
    leave_one_out = [(values.sum() - v) / 5 for v in values]
    parts = jackknifed([1.0, 2.0, 3.0], leave_one_out)
    assert parts.v_item == pytest.approx(values.var(ddof=1) / 6)
    assert parts.v_seed == pytest.approx(1.0 / 3)


def test_the_level_is_shared_out_over_claims_and_looks():
    assert corrected_alpha(claims=7, looks=1) == pytest.approx(0.05 / 7)
    assert corrected_alpha(claims=4, looks=3) == pytest.approx(0.05 / 12)
    with pytest.raises(UsageError):
        corrected_alpha(claims=0, looks=1)


def _judged(low: float, high: float, *, seeds: int = 3, looks: tuple[int, ...] = (3,), margin: float = 0.0):
    mean, half = (low + high) / 2, (high - low) / 2
    by_seed = quantile_t(seeds - 1, 0.01) * (1 + BOUNDED / seeds)
    parts = Components(mean=mean, v_seed=(half / by_seed) ** 2, v_item=0.0, seeds=seeds, items=30)
    claim = Claim(name="A beats B", better="a", worse="b", metric="loss", margin=margin)
    return judge(claim, parts, alpha=0.01, looks=looks, by_seed=[mean] * seeds)


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.1, 0.5, "supported"), (-0.5, -0.1, "refuted"), (-0.1, 0.5, "undecided")]
)
def test_a_verdict_follows_from_where_the_interval_lies(low: float, high: float, verdict: str):
    judgement = _judged(low, high)
    assert judgement.verdict == verdict
    assert (judgement.low, judgement.high) == pytest.approx((low, high))


def test_a_margin_moves_the_line_that_the_interval_must_clear():
    assert _judged(0.1, 0.5, margin=0.2).verdict == "undecided"
    assert _judged(0.1, 0.5, margin=0.6).verdict == "refuted"


def test_two_seeds_give_an_interval_and_no_verdict():
    judgement = _judged(0.1, 0.5, seeds=2, looks=(2,))
    assert judgement.verdict == "exploratory"
    assert judgement.low == pytest.approx(0.1)


def test_a_seed_count_that_was_not_declared_gives_no_verdict():
    assert _judged(0.1, 0.5, seeds=4, looks=(3,)).verdict == "exploratory"
    assert _judged(0.1, 0.5, seeds=4, looks=(3, 4)).verdict == "supported"


def test_an_undecided_claim_names_the_seeds_that_would_probably_decide_it():
    parts = Components(mean=0.2, v_seed=0.01, v_item=0.0, seeds=3, items=30)
    needed = seeds_to_decide(parts, 0.01, 0.0)
    assert needed is not None
    assert detectable(parts.with_seeds(needed), 0.01) <= 0.2 < detectable(parts.with_seeds(needed - 1), 0.01)


def test_when_items_are_the_limit_more_seeds_are_not_promised():
    parts = Components(mean=0.2, v_seed=0.0001, v_item=0.04, seeds=3, items=30)
    assert seeds_to_decide(parts, 0.01, 0.0) is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_difference_that_is_not_finite_is_refused(bad: float):
    with pytest.raises(UsageError, match="not finite"):
        crossed([[0.0, bad], [1.0, 2.0]])


def _coverage(*, seeds: int, items: int, spread: tuple[float, float, float], alpha: float, runs: int) -> float:
    """Share of simulated studies whose interval holds the true mean, 0."""
    rng = np.random.default_rng(20240607)
    of_seed, of_item, of_both = spread
    shape = (runs, seeds, items)
    d = (
        of_seed * rng.standard_normal((runs, seeds, 1))
        + of_item * rng.standard_normal((runs, 1, items))
        + of_both * rng.standard_normal(shape)
    )
    ms_seed, ms_item, ms_residual = mean_squares(d)
    v_seed = ms_seed / (seeds * items)
    v_item = np.maximum(0.0, ms_item - ms_residual) / (seeds * items)
    by_seed = quantile_t(seeds - 1, alpha) * (1 + BOUNDED / seeds)
    half = np.sqrt(by_seed**2 * v_seed + quantile_t(items - 1, alpha) ** 2 * v_item)
    return float((np.abs(d.mean((1, 2))) <= half).mean())


SPREADS = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.3), (1.0, 1.0, 1.0), (0.1, 1.0, 1.0), (1.0, 0.1, 3.0)]


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 7])
def test_intervals_hold_the_truth_at_least_as_often_as_they_say(spread: tuple[float, float, float], alpha: float):
    runs = 4000
    for seeds in (2, 3, 5):
        got = _coverage(seeds=seeds, items=34, spread=spread, alpha=alpha, runs=runs)
        assert got >= 1 - alpha - 3 * math.sqrt(alpha * (1 - alpha) / runs), (seeds, got)


@pytest.mark.nightly
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("items", [20, 100])
def test_intervals_hold_the_truth_in_a_long_simulation(spread: tuple[float, float, float], items: int):
    runs = 40_000
    for seeds in (2, 3, 5, 8):
        for alpha in (0.05, 0.05 / 7, 0.05 / 36):
            got = _coverage(seeds=seeds, items=items, spread=spread, alpha=alpha, runs=runs)
            assert got >= 1 - alpha - 3 * math.sqrt(alpha * (1 - alpha) / runs), (seeds, alpha, got)
