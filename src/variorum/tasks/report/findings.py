"""What a report says, as data: figures with intervals over items and seeds, confusions, calibration, errors, slices.

Each model says itself what it made of the rows (:mod:`variorum.tasks.examined`), whatever kind of task it does. Items
are drawn again with replacement, the same for every class and seed; over seeds stands Student's interval. Nothing here
knows how it will look.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from variorum.errors import UsageError
from variorum.tasks.examined import Belief, Examined, Kinds, Mistake, thirds
from variorum.tasks.metrics.intervals import DRAWS, Interval, between, over_seeds, resampled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from variorum.tasks.estimator import Estimator

    Floats = NDArray[np.float64]

BINS, SHOWN, FEWEST = 10, 12, 10
"""Bins of confidence, errors shown of each sort, and rows that a slice has at least."""
WIDE = 1.96
"""Half the width of a 95 % interval in standard errors."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What the rows and the models do not say themselves.

    Attributes:
        command: what a reader types to repeat it.
        slices: further groupings of the rows by name ("domain"), a value each.
        baselines: the answers of simple models on the same rows, by their names, the usual one first.
        lines: of the file on which the rows begin; they are numbered from 1 if absent.
        audit: what was noticed about the data, a sentence each.
        facts: further lines on how it was made, by name.
    """

    command: str
    slices: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    baselines: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    lines: Sequence[int] = ()
    audit: tuple[str, ...] = ()
    facts: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One figure: over items, and the mean over seeds with the figure of each where there are several."""

    name: str
    items: Interval
    seeds: Interval | None = None
    by_seed: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ByClass:
    """One class, or one type of what is found; ``rows`` is how often it is truly there."""

    name: str
    rows: int
    precision: Interval
    recall: Interval
    f1: Interval


@dataclass(frozen=True, kw_only=True)
class Bin:
    """What was said alike: how sure on average and how often right; or the mean of numbers, and of what is true."""

    said: float
    so: float
    low: float
    high: float
    rows: int


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Rows that have something in common, and the mean of the report's ``measure`` over them."""

    by: str
    name: str
    rows: int
    mean: Interval


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that the page, the card and the JSON say.

    Attributes:
        called: what ``by_class`` has the figures of.
        names, confusion, units: of the first seed, so many units by truth and answer, in the order of the names.
        bins, error, axes: what was said against what was so, their mean distance, and what the two are called; of
            confidence the expected calibration error.
        confident, worst: mistakes that were made with the most confidence, and those that are furthest from the truth.
        numbered: what the ``row`` of a mistake is the number of.
        measure: what slices are compared by.
        longer, limit: rows of more tokens than are read at once, and how many these are; cut, or read in windows.
        epochs: of the first seed: number, loss, judgement on held-out rows.
    """

    title: str
    rows: int
    figures: tuple[Scored, ...]
    baselines: Mapping[str, tuple[Scored, ...]]
    called: str
    by_class: tuple[ByClass, ...]
    names: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    units: str
    axes: tuple[str, str]
    bins: tuple[Bin, ...]
    error: float
    confident: tuple[Mistake, ...]
    worst: tuple[Mistake, ...]
    numbered: Literal["row", "line"]
    measure: str
    slices: tuple[Slice, ...]
    longer: int
    limit: int
    windows: bool
    epochs: tuple[tuple[int, float, float | None], ...]
    audit: tuple[str, ...]
    facts: Mapping[str, str]
    command: str


def examine(models: Sequence[Estimator], X: Sequence[Any], y: Sequence[Any], context: Context) -> Report:
    """What fitted models, one for each seed, make of rows that they did not learn from.

    Raises:
        UsageError: no rows, or models of different tasks or classes.
    """
    first = models[0]
    if any((one.kind, one.model_.label_names) != (first.kind, first.model_.label_names) for one in models):
        raise UsageError("the models do different tasks, or tell different classes apart", where="report",
                         remedy="give seeds of one task")  # fmt: skip
    if not len(X):
        raise UsageError("a report needs rows", where="report")
    each = [one.examined(X, y) for one in models]
    one, read, right = each[0], each[0].read, first.right(X, y)
    confusion, bins, error = one.confusion, *binned(one.belief)
    confident, worst = _mistakes(one, context)
    return Report(
        title=f"{first.model_.spec.name}, fine-tuned to {first.kind}", rows=len(X), figures=_figures(each),
        baselines={name: _scored([first.figures(said, right)], len(X)) for name, said in context.baselines.items()},
        called="" if one.kinds is None else one.kinds.called, by_class=_by_class(each),
        names=() if confusion is None else confusion.names, units="" if confusion is None else confusion.units,
        confusion=() if confusion is None else tuple(tuple(map(int, row)) for row in confusion.counts),
        axes=("", "") if one.belief is None else one.belief.axes, bins=bins, error=error,
        confident=confident, worst=worst, numbered="line" if context.lines else "row",
        measure=one.measure, slices=_slices(one, context),
        longer=sum(length > read.limit for length in read.tokens), limit=read.limit, windows=read.windows,
        epochs=_epochs(first), audit=context.audit, facts=_facts(models) | dict(context.facts),
        command=context.command,
    )  # fmt: skip


def _figures(each: Sequence[Examined]) -> tuple[Scored, ...]:
    return _scored([one.figures for one in each], len(each[0].each))


def _scored(each: Sequence[Mapping[str, Any]], rows: int) -> tuple[Scored, ...]:
    """Every figure, of a model for each seed."""
    names = list(each[0])
    drawn = resampled([one[name] for one in each for name in names], rows)
    found = []
    for place, name in enumerate(names):
        mine = drawn[place :: len(names)]
        by_seed = tuple(float(one[0]) for one in mine)
        items, seeds = between(np.mean(mine, 0)), over_seeds(by_seed) if len(by_seed) > 1 else None
        found.append(Scored(name=name.replace("_", " "), items=items, seeds=seeds, by_seed=by_seed))
    return tuple(found)


def _by_class(each: Sequence[Examined]) -> tuple[ByClass, ...]:
    """Precision, recall and F1 of each class, the mean over seeds; zero where there is nothing to divide by."""
    kinds = [one.kinds for one in each if one.kinds is not None]
    if not kinds:
        return ()
    names = tuple(dict.fromkeys(name for one in kinds for name in one.names))
    flat = [_placed(one, names).reshape(len(one.counts), -1).astype(float) for one in kinds]
    tallies = resampled([partial(_counted, one) for one in flat], len(flat[0]))
    found, said, there = np.moveaxis(np.array(tallies).reshape(len(kinds), -1, len(names), 3), -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = [np.nan_to_num(found / said), np.nan_to_num(found / there), np.nan_to_num(2 * found / (said + there))]
    precision, recall, f1 = (share.mean(0) for share in shares)
    return tuple(
        ByClass(name=name, rows=int(there[0, 0, k]), precision=between(precision[:, k]), recall=between(recall[:, k]),
                f1=between(f1[:, k]))
        for k, name in enumerate(names)
    )  # fmt: skip


def _counted(each: Floats, counts: Any) -> Floats:
    return np.asarray(counts @ each)


def _placed(kinds: Kinds, names: Sequence[str]) -> Any:
    """Counts in the order of ``names``, of which a seed may have met only some."""
    made = np.zeros((len(kinds.counts), len(names), 3), dtype=np.int64)
    made[:, [names.index(name) for name in kinds.names]] = kinds.counts
    return made


def binned(belief: Belief | None) -> tuple[tuple[Bin, ...], float]:
    """Confidences in bins of equal width, numbers in bins of equal size; and the mean distance of what was said from
    what was so: of confidences, the expected calibration error (Guo et al. 2017, equation 3)."""
    if belief is None:
        return (), 0.0
    said, so = belief.said, belief.so
    ranks = np.argsort(np.argsort(said, kind="stable"), kind="stable") / len(said)
    places = np.minimum((said if belief.share else ranks) * BINS, BINS - 1).astype(int)
    found = []
    for place in np.unique(places):
        mine = so[places == place]
        low, high = _wilson(float(mine.mean()), len(mine)) if belief.share else _around(mine)
        found.append(Bin(said=float(said[places == place].mean()), so=float(mine.mean()), low=low, high=high,
                         rows=len(mine)))  # fmt: skip
    return tuple(found), float(sum(one.rows * abs(one.said - one.so) for one in found) / len(said))


def _wilson(share: float, rows: int) -> tuple[float, float]:
    square = WIDE * WIDE / rows
    middle = (share + square / 2) / (1 + square)
    half = WIDE / (1 + square) * (share * (1 - share) / rows + square / (4 * rows)) ** 0.5
    return middle - half, middle + half


def _around(values: Floats) -> tuple[float, float]:
    middle, half = float(values.mean()), float(WIDE * values.std() / len(values) ** 0.5)
    return middle - half, middle + half


def _mistakes(one: Examined, context: Context) -> tuple[tuple[Mistake, ...], tuple[Mistake, ...]]:
    """Those made with the most confidence, and of the others the worst; each with the number of its row or line."""
    sure = [mistake for mistake in one.mistakes if mistake.confidence is not None]
    confident = sorted(sure, key=lambda mistake: -(mistake.confidence or 0))[:SHOWN]
    shown = {id(mistake) for mistake in confident}
    worst = sorted((one for one in one.mistakes if id(one) not in shown), key=lambda mistake: -mistake.by)[:SHOWN]
    numbers = context.lines or range(1, len(one.each) + 1)
    first, second = (tuple(dataclasses.replace(m, row=numbers[m.row]) for m in some) for some in (confident, worst))
    return first, second


def _slices(one: Examined, context: Context) -> tuple[Slice, ...]:
    from variorum.tasks.language import slices

    groupings = {"length": thirds(one.read.tokens, " tokens"), "language": slices(one.read.texts),
                 **one.groups, **context.slices}  # fmt: skip
    found = []
    for by, values in groupings.items():
        kinds, places = np.unique(np.array(values, dtype=object).astype(str), return_inverse=True)
        for number in np.argsort(-np.bincount(places), kind="stable"):
            mine = one.each[places == number]
            if len(mine) >= min(FEWEST, len(one.each)) and len(kinds) > 1:
                found.append(Slice(by=by, name=str(kinds[number]), rows=len(mine), mean=_mean(mine)))
    return tuple(found)


def _mean(values: Floats) -> Interval:
    """The mean with its interval over items; equal ones are drawn together."""
    kinds, counts = np.unique(values, return_counts=True)
    drawn = np.random.default_rng(0).multinomial(len(values), counts / len(values), size=DRAWS) @ kinds / len(values)
    return between(np.append(values.mean(), drawn))


def _epochs(model: Estimator) -> tuple[tuple[int, float, float | None], ...]:
    history = getattr(model, "history_", None)
    return () if history is None else tuple((one.epoch, one.loss, one.score) for one in history.epochs)


def _facts(models: Sequence[Estimator]) -> dict[str, str]:
    import torch

    from variorum import __version__

    first = models[0]
    parameters = sum(p.numel() for p in first.model_.parameters())
    settings = first.get_params(deep=False)
    told = ("model", "epochs", "batch_size", "learning_rate", "adapt", "max_length", "random_state")
    return {
        "Model": f"{first.model_.spec.name}, {parameters:,} parameters",
        "Seeds": str(len(models)),
        "Settings": ", ".join(f"{name} {settings[name]}" for name in told if settings.get(name) is not None),
        "variorum": __version__, "torch": str(torch.__version__),
    }  # fmt: skip
