"""What turns scores into answers: a temperature, thresholds, and the confidence below which no answer is given.

All of it is found on rows that were not learned from, saved with the model, and the same wherever the model answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from variorum.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

LEVEL = 0.95
"""Confidence with which a least confidence keeps its risk on further rows."""
STEPS = 20
"""Confidences that are tried, from the highest to the lowest."""
NEVER = 1.01
"""A least confidence that no answer reaches."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """How scores become answers.

    Attributes:
        temperature: scores are divided by it before they become probabilities.
        thresholds: for each class; all alike if empty.
        least: below this confidence there is no answer.
    """

    temperature: float = 1.0
    thresholds: tuple[float, ...] = ()
    least: float = 0.0


def check_shares(**given: float | None) -> None:
    """See that what is to be kept to, by name, can be.

    Raises:
        UsageError: one is no share.
    """
    for name, share in given.items():
        if share is not None and not 0 < share < 1:
            raise UsageError(f"a {name} of {share}", where=name, remedy="give a share between 0 and 1")


def coolest(loss: Callable[[float], float]) -> float:
    """The temperature with the least loss (Guo et al. 2017), between a twentieth and twenty."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(lambda log: loss(float(np.exp(log))), bounds=(-3.0, 3.0), method="bounded")
    return float(np.exp(found.x))


def shares(probabilities: Floats, truth: Bools, *, rounds: int = 3) -> tuple[float, ...]:
    """Thresholds under which the largest multiple p/threshold [N, labels] has the best macro-F1.

    Classes are taken in turn until none gains, each threshold moved by factors.
    """
    found, best = np.ones(probabilities.shape[-1]), 0.0
    best = _macro_f1(one_hot(probabilities / found), truth)
    for _ in range(rounds):
        before = best
        for k in range(len(found)):
            for factor in (0.25, 0.5, 0.75, 0.9, 1.1, 1.33, 2.0, 4.0):
                tried = found.copy()
                tried[k] *= factor
                got = _macro_f1(one_hot(probabilities / tried), truth)
                if got > best + 1e-9:
                    found, best = tried, got
        if best <= before:
            break
    return tuple(float(one) for one in found / found.max())


def borders(probabilities: Floats, truth: Bools) -> tuple[float, ...]:
    """For each label on its own, the probability from which on it is given with the best F1; one half where it never
    occurs."""
    return tuple(_border(probabilities[:, k], truth[:, k]) for k in range(truth.shape[-1]))


def _border(probabilities: Floats, truth: Bools) -> float:
    if not truth.any():
        return 0.5
    order = np.argsort(-probabilities, kind="stable")
    ranked, hits = probabilities[order], np.cumsum(truth[order])
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + truth.sum())
    at = int(np.where(_ends(ranked), f1, -1).argmax())
    below = ranked[at + 1] if at + 1 < len(ranked) else 0.0
    return float((ranked[at] + below) / 2)


def least_for_risk(confidence: Floats, right: Bools, risk: float) -> float:
    """The confidence from which on at most a share ``risk`` of the answers is wrong, with 95 % confidence.

    The bound is Clopper and Pearson's. It is taken at a few confidences, the highest first, until one does not keep the
    risk: a promise that is tested in a fixed order needs no correction for their number (Angelopoulos et al. 2021),
    while the best of all confidences would be broken too often. Where none keeps it, nothing is answered.

    Raises:
        UsageError: a risk that is no share.
    """
    from scipy.stats import beta

    check_shares(risk=risk)
    order = np.argsort(-confidence, kind="stable")
    wrong, ranked, least = np.cumsum(~right[order]), confidence[order], NEVER
    fewest = int(np.ceil(np.log(1 - LEVEL) / np.log(1 - risk)))  # rows that, all right, promise so little
    if fewest > len(order):
        return NEVER
    ends = np.flatnonzero(_ends(ranked)) + 1
    sizes = ends[np.searchsorted(ends, np.linspace(fewest, len(order), STEPS))]
    for size in np.unique(sizes).tolist():
        bad = int(wrong[size - 1])
        if bad == size or beta.ppf(LEVEL, bad + 1, size - bad) > risk:
            break
        least = float(ranked[size - 1])
    return least


def least_for_budget(confidence: Floats, budget: float) -> float:
    """The confidence below which at most a share ``budget`` of the rows lies: what somebody can look at.

    Raises:
        UsageError: a budget that is no share.
    """
    if budget == 0:
        return 0.0
    check_shares(budget=budget)
    return float(np.sort(confidence)[int(budget * len(confidence))])


def one_hot(scores: Any) -> Bools:
    """The largest of each row [N, labels], the first of equal ones."""
    chosen = np.zeros(scores.shape, dtype=bool)
    chosen[np.arange(len(chosen)), scores.argmax(-1)] = True
    return chosen


def _ends(ranked: Floats) -> Bools:
    """Where a falling list may be cut: equal confidences cannot be told apart."""
    return np.append(ranked[:-1] > ranked[1:], True)


def _macro_f1(given: Bools, truth: Bools) -> float:
    from variorum.tasks.metrics.classes import indicated_f1

    return float(np.nanmean(indicated_f1(given, truth)))
