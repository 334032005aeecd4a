"""Which items each arm misses, which of them others miss too, and examples: do two arms fail alike, or apart?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from variorum.study.analysis import Outcome


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Mistakes of arms at their first seed.

    Attributes:
        items: that were asked. missed: how many each arm misses, by its name.
        shared: ``shared[a][b]`` is the share of a's mistakes that b makes too, where a makes any.
        by_all: numbers of the items that all miss. by_best: that the best arm alone misses.
    """

    items: int
    missed: Mapping[str, int]
    shared: Mapping[str, Mapping[str, float]]
    by_all: tuple[int, ...]
    by_best: tuple[int, ...]


def answers(outcome: Outcome) -> dict[str, Sequence[Any]]:
    """What each arm answered at its first seed."""
    return {one.arm: outcome.results[one.arm, next(iter(one.by_seed))].items for one in outcome.figures}


def overlap(outcome: Outcome) -> Overlap | None:
    """The mistakes of an outcome; ``None`` where nothing says what is right, or no arm finished."""
    import numpy as np

    truth = outcome.truth
    if truth is None or not outcome.figures:
        return None
    wrong = {arm: truth.judge.missed(items, truth.labels) for arm, items in answers(outcome).items()}
    best = max(outcome.figures, key=lambda one: one.mean).arm
    alone = np.sum(list(wrong.values()), axis=0) == 1
    return Overlap(
        items=len(truth.labels), missed={arm: int(row.sum()) for arm, row in wrong.items()},
        shared={
            a: {b: float((one & other).sum() / one.sum()) for b, other in wrong.items() if b != a}
            for a, one in wrong.items() if one.any()
        },
        by_all=_places(np.all(list(wrong.values()), axis=0)), by_best=_places(wrong[best] & alone),
    )  # fmt: skip


def _places(which: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in which.nonzero()[0])
