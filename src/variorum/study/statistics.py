"""Verdicts on paired differences over seeds and items, whose intervals are :mod:`variorum.tasks.metrics.paired`'s.

A verdict is given on a claim stated before the run; its interval is the one that is drawn, so the two never disagree.
This module knows numbers only: arms and cells are `plan` and `cells`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from variorum.errors import UsageError
from variorum.tasks.metrics.paired import Components

Verdict = Literal["supported", "refuted", "undecided", "exploratory"]

FAMILY_ALPHA = 0.05
"""Chance of any wrong verdict in a study, shared out over its claims and looks."""
MIN_SEEDS = 3
"""Fewer seeds give an interval but no verdict."""
DEFAULT_LOOKS = (5, 8, 12)
"""Seed counts at which a study may be read unless its plan declares others."""
POWER_Z = 0.8416212335729143
"""Standard normal quantile of 0.8: 'would probably decide' means with probability 0.8."""
MOST_SEEDS = 200
"""Beyond this many seeds the answer is 'not by seeds', not a number."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What is said before the run: arm ``better`` beats arm ``worse`` by at least ``margin``."""

    name: str
    better: str
    worse: str
    metric: str
    margin: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A claim after the run. ``gain`` is positive when the claimed arm is the better one.

    ``detectable`` is the smallest gain beyond the margin that this design decides with probability 0.8;
    ``seeds_to_decide`` is given for undecided claims, None when more seeds alone would not do it.
    """

    claim: Claim
    verdict: Verdict
    gain: float
    low: float
    high: float
    alpha: float
    seeds: int
    items: int
    detectable: float
    seeds_to_decide: int | None
    by_seed: tuple[float, ...]


def corrected_alpha(*, claims: int, looks: int, family: float = FAMILY_ALPHA) -> float:
    """The level of one interval: the family's level over claims × looks (Bonferroni)."""
    if claims < 1 or looks < 1:
        raise UsageError("a study needs at least one claim and one look", where="study plan")
    return family / (claims * looks)


def looks_of(seeds: int, asked: Sequence[int] = ()) -> tuple[int, ...]:
    """The looks of a study of so many seeds: those asked for, else the usual ones where it begins at the first of them.

    Raises:
        UsageError: too few seeds for an interval.
    """
    if seeds < 2:
        raise UsageError("an interval needs at least 2 seeds, a verdict 3", where="--seeds")
    usual = DEFAULT_LOOKS if seeds == DEFAULT_LOOKS[0] else (max(MIN_SEEDS, seeds),)
    return tuple(asked) or usual


def detectable(parts: Components, alpha: float) -> float:
    """Smallest true gain beyond the margin that is decided with probability 0.8."""
    return parts.half_width(alpha) + POWER_Z * parts.standard_error


def seeds_to_decide(parts: Components, alpha: float, margin: float) -> int | None:
    """The fewest seeds that would probably decide, were the observed gain the true one; None if seeds alone do not."""
    distance = abs(parts.mean - margin)
    for seeds in range(parts.seeds + 1, MOST_SEEDS + 1):
        if detectable(parts.with_seeds(seeds), alpha) <= distance:
            return seeds
    return None


def decide(
    parts: Components, *, alpha: float, looks: Sequence[int], margin: float = 0.0
) -> tuple[float, float, Verdict]:
    """The interval of a gain, and the verdict that follows from where it lies; arguments as for :func:`judge`."""
    half = parts.half_width(alpha)
    low, high = parts.mean - half, parts.mean + half
    if parts.seeds not in looks or parts.seeds < MIN_SEEDS:
        return low, high, "exploratory"
    if low > margin:
        return low, high, "supported"
    return low, high, "refuted" if high < margin else "undecided"


def judge(
    claim: Claim,
    parts: Components,
    *,
    alpha: float,
    looks: Sequence[int],
    by_seed: Sequence[float],
) -> Judgement:
    """The verdict on one claim.

    Args:
        parts: components of the *gain* of ``claim.better`` over ``claim.worse`` (positive is better).
        alpha: level of this interval, already divided by claims × looks.
        looks: seed counts declared in the plan; any other count is exploratory and gets no verdict.
        by_seed: gain per seed, for the drawing.
    """
    low, high, verdict = decide(parts, alpha=alpha, looks=looks, margin=claim.margin)
    open_ = verdict in ("undecided", "exploratory")
    return Judgement(
        claim=claim,
        verdict=verdict,
        gain=parts.mean,
        low=low,
        high=high,
        alpha=alpha,
        seeds=parts.seeds,
        items=parts.items,
        detectable=detectable(parts, alpha),
        seeds_to_decide=seeds_to_decide(parts, alpha, claim.margin) if open_ else None,
        by_seed=tuple(by_seed),
    )
