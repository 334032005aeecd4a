"""What a report says, as data: figures with intervals over items and seeds, confusions, calibration, errors, slices.

Items are drawn again with replacement, the same for every class, slice and seed; over seeds stands Student's interval.
Nothing here knows how it will look.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from variorum.errors import UsageError
from variorum.tasks.metrics.intervals import DRAWS, Interval, over_seeds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from variorum.tasks.classify import Classifier

    Ids = NDArray[np.int64]
    Floats = NDArray[np.float64]

BINS, SHOWN, FEWEST = 10, 12, 10
"""Bins of confidence, errors shown of each kind, and rows that a slice has at least."""
PARTS = 3
"""Slices by length: the shortest third, the middle one, the longest."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What the rows and the models do not say themselves.

    Attributes:
        command: what a reader types to repeat it.
        slices: further groupings of the rows by name ("domain"), a value each.
        baseline: a simple model's name, and its answers on the same rows.
        audit: what was noticed about the data, a sentence each.
        facts: further lines on how it was made, by name.
    """

    command: str
    slices: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    baseline: tuple[str, Sequence[Any]] | None = None
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
    """One class; ``rows`` are those that are truly of it."""

    name: str
    rows: int
    precision: Interval
    recall: Interval
    f1: Interval


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Answers of about one confidence: how sure on average, how often right, how many."""

    confidence: float
    right: float
    rows: int


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A row that was answered wrongly: how sure of the answer, and how probable the truth was held to be."""

    row: int
    text: str
    truth: str
    answer: str
    confidence: float
    of_truth: float


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Rows that have something in common."""

    by: str
    name: str
    rows: int
    accuracy: Interval


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that the page, the card and the JSON say.

    Attributes:
        confusion: rows of the first seed, truth by answer, in the order of ``classes``.
        error: the expected calibration error over ``bins``.
        confident, unlikely: mistakes that were made with the most confidence, and those whose truth was held to be the
            least probable.
        cut: rows longer than what is read of them, ``limit`` tokens.
        epochs: of the first seed: number, loss, judgement on held-out rows.
    """

    title: str
    rows: int
    classes: tuple[str, ...]
    figures: tuple[Scored, ...]
    baseline: tuple[str, tuple[Scored, ...]] | None
    confusion: tuple[tuple[int, ...], ...]
    by_class: tuple[ByClass, ...]
    bins: tuple[Bin, ...]
    error: float
    confident: tuple[Mistake, ...]
    unlikely: tuple[Mistake, ...]
    slices: tuple[Slice, ...]
    cut: int
    limit: int
    epochs: tuple[tuple[int, float, float | None], ...]
    audit: tuple[str, ...]
    facts: Mapping[str, str]
    command: str


def examine(models: Sequence[Classifier], texts: Sequence[Any], labels: Sequence[Any], context: Context) -> Report:
    """What fitted classifiers, one for each seed, make of rows that they did not learn from.

    Raises:
        UsageError: no rows, models of different classes, or classes that may stand together.
    """
    first = models[0]
    classes = tuple(map(str, first.classes_.tolist()))
    if any(tuple(map(str, one.classes_.tolist())) != classes for one in models):
        raise UsageError("the models tell different classes apart", where="report", remedy="give seeds of one task")
    if not texts or first.learned()["several"]:
        raise UsageError("a report needs rows with one label each", where="report")
    unseen = sorted(set(map(str, labels)) - set(classes))
    names = (*classes, *unseen)
    place = {name: i for i, name in enumerate(names)}
    truth = np.array([place[str(label)] for label in labels])
    probabilities = [np.pad(one.predict_proba(texts), ((0, 0), (0, len(unseen)))) for one in models]
    answers = [np.array([place[str(label)] for label in one.predict(texts)]) for one in models]
    drawn = _Drawn(truth, answers, len(names))
    shown = [_text(text) for text in texts]
    wrong = _mistakes(shown, truth, answers[0], probabilities[0], names)
    confident = sorted(wrong, key=lambda one: -one.confidence)[:SHOWN]
    unlikely = sorted((one for one in wrong if one not in confident), key=lambda one: one.of_truth)[:SHOWN]
    bins, error = calibration(probabilities[0][np.arange(len(truth)), answers[0]], answers[0] == truth)
    lengths, limit = _lengths(first, texts)
    return Report(
        title=f"{first.model_.spec.name}, fine-tuned to {first.kind}", rows=len(truth), classes=names,
        figures=drawn.figures(), baseline=_baseline(context, truth, place),
        confusion=tuple(tuple(map(int, row)) for row in drawn.whole(0)), by_class=drawn.by_class(names),
        bins=bins, error=error, confident=tuple(confident), unlikely=tuple(unlikely),
        slices=_slices(context, shown, lengths, answers[0] == truth),
        cut=sum(length > limit for length in lengths), limit=limit, epochs=_epochs(first), audit=context.audit,
        facts=_facts(models) | dict(context.facts), command=context.command,
    )  # fmt: skip


class _Drawn:
    """Confusion matrices of items drawn again, each seed's [draws, classes, classes], by the same draws for all."""

    def __init__(self, truth: Ids, answers: Sequence[Ids], classes: int) -> None:
        patterns, counts = np.unique(np.column_stack([truth, *answers]), axis=0, return_counts=True)
        weights = np.random.default_rng(0).multinomial(len(truth), counts / len(truth), size=DRAWS)
        weights = np.concatenate([counts[None], weights])  # first the rows as they are
        self.matrices = []
        for seed in range(len(answers)):
            cells = np.eye(classes * classes)[patterns[:, 0] * classes + patterns[:, 1 + seed]]
            self.matrices.append((weights @ cells).reshape(-1, classes, classes))

    def whole(self, seed: int) -> Floats:
        """The confusion matrix of all rows."""
        return np.asarray(self.matrices[seed][0])

    def figures(self) -> tuple[Scored, ...]:
        """Macro-F1 and accuracy."""
        macro = [np.nanmean(_f1(one), -1) for one in self.matrices]
        right = [np.trace(one, axis1=-2, axis2=-1) / one.sum((-2, -1)) for one in self.matrices]
        return _scored("macro-F1", macro), _scored("accuracy", right)

    def by_class(self, names: Sequence[str]) -> tuple[ByClass, ...]:
        """Precision, recall and F1 of each class, the mean over seeds."""
        hits = [np.diagonal(one, axis1=-2, axis2=-1) for one in self.matrices]
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = np.mean([hit / one.sum(-2) for hit, one in zip(hits, self.matrices, strict=True)], 0)
            recall = np.mean([hit / one.sum(-1) for hit, one in zip(hits, self.matrices, strict=True)], 0)
        f1 = np.mean([_f1(one) for one in self.matrices], 0)
        rows = self.whole(0).sum(-1)
        return tuple(
            ByClass(name=name, rows=int(rows[k]), precision=_interval(precision[:, k]), recall=_interval(recall[:, k]),
                    f1=_interval(f1[:, k]))
            for k, name in enumerate(names)
        )  # fmt: skip


def _f1(matrices: Floats) -> Floats:
    """F1 of each class, [..., classes]; NaN for one that neither occurs nor is answered."""
    total = matrices.sum(-1) + matrices.sum(-2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(total > 0, 2 * np.diagonal(matrices, axis1=-2, axis2=-1) / total, np.nan))


def _interval(draws: Floats) -> Interval:
    """The first value, and the 2.5th and 97.5th percentile of the others; zero where there is nothing to divide by."""
    known = np.nan_to_num(draws)
    low, high = np.percentile(known[1:], (2.5, 97.5))
    return Interval(float(known[0]), float(low), float(high))


def _scored(name: str, draws: Sequence[Floats]) -> Scored:
    each = tuple(float(one[0]) for one in draws)
    items = _interval(np.mean(draws, 0))
    return Scored(name=name, items=items, seeds=over_seeds(each) if len(each) > 1 else None, by_seed=each)


def _baseline(context: Context, truth: Ids, place: Mapping[str, int]) -> tuple[str, tuple[Scored, ...]] | None:
    if context.baseline is None:
        return None
    name, said = context.baseline
    answers = np.array([place.get(str(label), len(place)) for label in said])
    return name, _Drawn(truth, [answers], len(place) + 1).figures()


def calibration(confidence: Floats, right: NDArray[np.bool_]) -> tuple[tuple[Bin, ...], float]:
    """Bins of equal width that hold any row, and the expected calibration error (Guo et al. 2017, equation 3)."""
    places = np.minimum((confidence * BINS).astype(int), BINS - 1)
    found = []
    for place in range(BINS):
        mine = places == place
        if mine.any():
            found.append(
                Bin(confidence=float(confidence[mine].mean()), right=float(right[mine].mean()), rows=int(mine.sum()))
            )
    error = sum(one.rows * abs(one.confidence - one.right) for one in found) / len(confidence)
    return tuple(found), float(error)


def _mistakes(
    texts: Sequence[str], truth: Ids, answers: Ids, probabilities: Floats, names: Sequence[str]
) -> list[Mistake]:
    return [
        Mistake(row=i + 1, text=texts[i], truth=names[truth[i]], answer=names[answers[i]],
                confidence=float(probabilities[i, answers[i]]), of_truth=float(probabilities[i, truth[i]]))
        for i in np.flatnonzero(truth != answers).tolist()
    ]  # fmt: skip


def _slices(
    context: Context, texts: Sequence[str], lengths: Sequence[int], right: NDArray[np.bool_]
) -> tuple[Slice, ...]:
    from variorum.tasks.language import slices

    groupings: dict[str, Sequence[str]] = {"length": _thirds(lengths), "language": slices(texts), **context.slices}
    found = []
    for by, values in groupings.items():
        kinds, places = np.unique(np.array(values, dtype=object).astype(str), return_inverse=True)
        for number in np.argsort(-np.bincount(places), kind="stable"):
            mine = right[places == number]
            if len(mine) >= min(FEWEST, len(right)) and len(kinds) > 1:
                draws = np.random.default_rng(0).binomial(len(mine), mine.mean(), size=DRAWS) / len(mine)
                accuracy = _interval(np.concatenate([[mine.mean()], draws]))
                found.append(Slice(by=by, name=str(kinds[number]), rows=len(mine), accuracy=accuracy))
    return tuple(found)


def _thirds(lengths: Sequence[int]) -> list[str]:
    """Each row's third by length in tokens, named by its bounds."""
    ends = np.quantile(lengths, np.arange(1, PARTS) / PARTS).round().astype(int)
    bounds = [min(lengths), *ends.tolist(), max(lengths)]
    places = np.searchsorted(ends, lengths, side="left")
    return [f"{bounds[p] + (p > 0)}–{bounds[p + 1]} tokens" for p in places]


def _lengths(model: Classifier, texts: Sequence[Any]) -> tuple[list[int], int]:
    """Tokens of each whole text, and how many are read."""
    encodings = model.model_.tokenizer.encode_batch(list(texts))
    return [len(one.ids) for one in encodings], model.limit(model.model_)


def _epochs(model: Classifier) -> tuple[tuple[int, float, float | None], ...]:
    history = getattr(model, "history_", None)
    return () if history is None else tuple((one.epoch, one.loss, one.score) for one in history.epochs)


def _facts(models: Sequence[Classifier]) -> dict[str, str]:
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


def _text(text: Any) -> str:
    return text if isinstance(text, str) else " ⁄ ".join(text)
