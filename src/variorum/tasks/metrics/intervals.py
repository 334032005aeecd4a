"""Intervals: over items by resampling them, over seeds by Student's t.

A figure is a function of how often each item is counted, int64 [draws, items] -> [draws], so that macro-F1, span F1
and any mean are resampled alike, and two models on the very same draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Figure = Callable[[NDArray[np.int64]], Floats]

DRAWS, AT_A_TIME = 1000, 50


@dataclass(frozen=True)
class Interval:
    """A figure and the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def said(self, sign: str = "") -> str:
        """In words; ``sign`` is "+" for a difference."""
        return f"{self.value:{sign}.3f} [{self.low:{sign}.3f}, {self.high:{sign}.3f}]"


def over_all(figure: Figure, items: int) -> float:
    """The figure of all items."""
    return float(figure(np.ones((1, items), dtype=np.int64))[0])


def over_items(figure: Figure, items: int, *, seed: int = 0) -> Interval:
    """The figure of all items, with the 2.5th and 97.5th percentile over samples of them with replacement."""
    return between(resampled([figure], items, seed=seed)[0])


def resampled(figures: Sequence[Figure], items: int, *, seed: int = 0) -> list[Floats]:
    """Each figure [1 + draws, ...]: first of all items, then of samples of them, the same ones for every figure."""
    rng, drawn = np.random.default_rng(seed), [[figure(np.ones((1, items), dtype=np.int64))] for figure in figures]
    for start in range(0, DRAWS, AT_A_TIME):
        counts = rng.multinomial(items, np.full(items, 1 / items), size=min(AT_A_TIME, DRAWS - start))
        for figure, values in zip(figures, drawn, strict=True):
            values.append(figure(counts))
    return [np.concatenate(values) for values in drawn]


def between(drawn: Floats) -> Interval:
    """What :func:`resampled` gives of one figure [1 + draws], as an interval; draws in which it has no value are left
    out."""
    known = drawn[1:][~np.isnan(drawn[1:])]
    low, high = np.percentile(known, (2.5, 97.5)) if len(known) else (math.nan, math.nan)
    return Interval(float(drawn[0]), float(low), float(high))


def difference(one: Figure, other: Figure, items: int, *, seed: int = 0) -> Interval:
    """By how much ``one`` is above ``other`` on the same items."""
    return over_items(lambda counts: one(counts) - other(counts), items, seed=seed)


def over_seeds(values: Sequence[float]) -> Interval:
    """The mean of one figure for each seed, with Student's interval; unbounded for a single one."""
    from scipy.stats import t

    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return Interval(mean, -math.inf, math.inf)
    half = float(t.ppf(0.975, count - 1) * np.std(values, ddof=1) / math.sqrt(count))
    return Interval(mean, mean - half, mean + half)


def mean_of(values: Any) -> Figure:
    """The mean of one number for each item."""
    each = np.asarray(values, dtype=np.float64)
    return lambda counts: np.asarray((counts @ each) / counts.sum(-1))


def ratio_of(above: Any, below: Any) -> Figure:
    """A ratio of two sums over items, as span F1 is: 0 where there is nothing below."""
    over, under = (np.asarray(one, dtype=np.float64) for one in (above, below))
    return lambda counts: np.asarray((counts @ over) / np.maximum(counts @ under, 1e-300))
