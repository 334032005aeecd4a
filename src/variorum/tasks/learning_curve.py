"""Whether more labels would pay: how each class's error falls with the number of its labelled items.

A model is fitted on growing, nested shares of the training rows, with several seeds, and always judged on the same held
out rows. Through the errors of a class goes a power law, e(n) = a·n^(-b) + c with a, c ≥ 0 (Hestness et al. 2017),
which says what twice the labels would bring, with an interval in which both seeds and held-out items are random.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variorum.errors import UsageError
from variorum.tasks.trials import Learn, Rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ids = NDArray[np.int64]

SHARES = (0.1, 0.2, 0.4, 0.7, 1.0)
RESAMPLES = 400
#: Exponents that are tried; those seen in practice lie between 0.07 and 0.5 (Hestness et al. 2017), those of small
#: classes higher.
EXPONENTS = tuple(0.05 * step for step in range(1, 41))
#: A gain in F1 of less than this is not worth doubling the labels.
WORTH = 0.01


@dataclass(frozen=True, kw_only=True)
class Point:
    """F1 of a class with so many of its items learnt from, the mean over seeds."""

    items: int
    f1: float


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One class.

    Attributes:
        label: its name. points: measured, few items first.
        gain: in F1 by twice as many labels as there are, by the fitted law; low, high: its 95 % interval.
        pays: whether even the low end is worth it; ``None`` where the interval does not say.
    """

    label: str
    points: tuple[Point, ...]
    gain: float
    low: float
    high: float
    pays: bool | None


def curves(
    learn: Learn, train: Rows, test: Rows, *, shares: Sequence[float] = SHARES, seeds: int = 3, worth: float = WORTH
) -> list[Curve]:
    """A curve for each class of the held-out rows.

    Args:
        learn: see :func:`~variorum.tasks.trials.learner`.
        train, test: texts and labels; of the first, shares are learnt from.
        shares: of the training rows, growing, at least three.
        seeds: how often each share is drawn and fitted.
        worth: the gain in F1 that would pay.

    Raises:
        UsageError: fewer than three shares or two seeds.
    """
    import numpy as np

    if len(shares) < 3 or list(shares) != sorted(shares) or not 0 < shares[0] < shares[-1] <= 1:
        raise UsageError("a curve needs at least three growing shares up to 1", where="shares")
    if seeds < 2:
        raise UsageError("an interval needs at least two seeds", where="seeds")
    names = sorted({*train.labels, *test.labels})
    counts, answers = _learnt(learn, train, test, shares, seeds, {name: i for i, name in enumerate(names)})
    truth = np.array([names.index(label) for label in test.labels])
    drawn = np.random.default_rng(0).multinomial(len(truth), np.full(len(truth), 1 / len(truth)), RESAMPLES)
    once = f1(truth, answers, np.ones((1, len(truth))))[:, :, 0]  # [shares, seeds, classes]
    again = f1(truth, answers, drawn.astype(float)).mean(1)  # [shares, resamples, classes]
    return [
        _curve(name, counts[:, number], once[:, :, number], again[:, :, number], worth)
        for number, name in enumerate(names)
        if (truth == number).any() and counts[0, number]
    ]


def _learnt(
    learn: Learn, train: Rows, test: Rows, shares: Sequence[float], seeds: int, place: Mapping[str, int]
) -> tuple[Floats, Ids]:
    """Items of each class learnt from, [shares, classes], and the answers then, [shares, seeds, items]."""
    import numpy as np

    answers = np.empty((len(shares), seeds, len(test.texts)), dtype=np.int64)
    counts = np.zeros((len(shares), len(place)))
    for seed in range(seeds):
        for step, rows in enumerate(nested(train.labels, shares, seed)):
            predict = learn(train.at(rows), seed)
            answers[step, seed] = [place[label] for label in predict(test.texts)]
            counts[step] += np.bincount([place[train.labels[row]] for row in rows], minlength=len(place)) / seeds
    return counts, answers


def _curve(name: str, items: Floats, measured: Floats, again: Floats, worth: float) -> Curve:
    """The curve through F1 [shares, seeds], and [shares, resamples] with items drawn again."""
    mean = measured.mean(1)
    gain = float(doubled(items, 1 - mean[None])[0])
    half = _half_width(doubled(items, 1 - measured.T), doubled(items, 1 - again.T))
    low, high = gain - half, gain + half
    return Curve(
        label=name,
        points=tuple(Point(items=round(n), f1=float(one)) for n, one in zip(items, mean, strict=True)),
        gain=gain,
        low=low,
        high=high,
        pays=(low >= worth) if low >= worth or high < worth else None,
    )


def _half_width(by_seed: Floats, by_items: Floats) -> float:
    """Of a 95 % interval, from the gain with each seed and from that with each draw of items (Banerjee 1960)."""
    from scipy.special import stdtrit

    seeds = len(by_seed)
    of_seeds = float(stdtrit(seeds - 1, 0.975)) ** 2 * by_seed.var(ddof=1) / seeds
    return float((of_seeds + 1.96**2 * by_items.var(ddof=1)) ** 0.5)


def nested(labels: Sequence[str], shares: Sequence[float], seed: int) -> list[list[int]]:
    """Rows of each share, at least one of each class in all, every share a part of the next; classes keep their mix."""
    chance = random.Random(seed)
    by_label: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        by_label.setdefault(label, []).append(row)
    orders = [chance.sample(by_label[name], len(by_label[name])) for name in sorted(by_label)]
    return [sorted(row for order in orders for row in order[: max(1, round(share * len(order)))]) for share in shares]


def f1(truth: Ids, answers: Ids, weights: Floats) -> Floats:
    """F1 of each class [..., draws, classes].

    Args:
        truth: class ids [items]; answers: of each model, [..., items].
        weights: how often each draw counts each item, [draws, items].
    """
    import numpy as np

    found = []
    for number in range(max(int(truth.max()), int(answers.max())) + 1):
        is_it, said = truth == number, answers == number
        total = said @ weights.T + is_it @ weights.T  # [..., draws]
        found.append(np.where(total > 0, 2 * ((said & is_it) @ weights.T) / np.maximum(total, 1e-12), 0.0))
    return np.stack(found, -1)


def doubled(items: Floats, errors: Floats) -> Floats:
    """By how much the error falls [curves] from the last n to 2n, by the power law nearest to errors [curves, n's]."""
    import numpy as np

    best, gain = np.full(len(errors), np.inf), np.zeros(len(errors))
    for exponent in EXPONENTS:
        falling = items**-exponent
        a, c = _nearest(falling, errors)
        misfit = ((a[:, None] * falling + c[:, None] - errors) ** 2).sum(1)
        better = misfit < best
        best = np.where(better, misfit, best)
        gain = np.where(better, a * falling[-1] * (1 - 2**-exponent), gain)
    return gain


def _nearest(falling: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """a and c, neither negative, of the least squares a·falling + c = errors, for each row of errors."""
    import numpy as np

    centred = falling - falling.mean()
    a = errors @ centred / (centred @ centred)
    c = errors.mean(1) - a * falling.mean()
    level = np.where(a < 0, errors.mean(1), 0.0)  # where it would rise, the best is flat
    steep = errors @ falling / (falling @ falling)  # where c would be negative, the best ends at 0
    return np.where(a < 0, 0.0, np.where(c < 0, steep, a)), np.where(a < 0, level, np.maximum(c, 0.0))
