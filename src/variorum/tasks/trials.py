"""What other rows to learn from are worth: the same learner, seeds and held-out items, and the difference paired.

A learner is anything that learns labels from rows: the baseline in a second, or a fine-tuned model. Macro-F1 and the F1
of each class come with intervals in which both seeds and items are random (:mod:`variorum.tasks.metrics.paired`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from variorum.errors import UsageError
from variorum.tasks.metrics.intervals import Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

BASELINE = "baseline"
LEVEL = 0.05
GROUPS = 20
MACRO = "macro"


@dataclass(frozen=True)
class Rows:
    """Texts, their labels, and by how much each counts; all alike without weights."""

    texts: Sequence[str]
    labels: Sequence[str]
    weights: Sequence[float] | None = None

    def at(self, rows: Sequence[int]) -> Rows:
        """Those at these places."""
        texts, labels = ([values[row] for row in rows] for values in (self.texts, self.labels))
        return Rows(texts, labels, None if self.weights is None else [self.weights[row] for row in rows])

    def and_(self, other: Rows) -> Rows:
        """Both, one after the other."""
        weights = [one for rows in (self, other) for one in rows.weights or [1.0] * len(rows.texts)]
        return Rows([*self.texts, *other.texts], [*self.labels, *other.labels], weights)


Predict = Callable[[Sequence[str]], Sequence[str]]
Way = Rows | Callable[[int], Rows]
"""Rows to learn from, or what gives them for a seed."""
Learn = Callable[[Rows, int], Predict]
"""Learns from rows with a seed, and then says the label of each text."""


def learner(model: str = BASELINE, **parameters: Any) -> Learn:
    """The baseline, or a :class:`~variorum.tasks.classify.Classifier` of a model with these parameters.

    Where there is one label only, that is what it says of every text.
    """

    def of_baseline(rows: Rows, seed: int) -> Predict:
        from variorum.tasks.baselines.linear import tfidf

        made = tfidf()
        weights = {} if rows.weights is None else {f"{made.steps[-1][0]}__sample_weight": list(rows.weights)}
        made.fit(list(rows.texts), list(rows.labels), **weights)
        return lambda texts: [str(one) for one in made.predict(list(texts))]

    def of_model(rows: Rows, seed: int) -> Predict:
        from variorum.tasks.classify import Classifier

        made = Classifier(model, random_state=seed, **parameters)
        made.fit(list(rows.texts), list(rows.labels), sample_weight=rows.weights)
        return lambda texts: [str(one) for one in made.predict(list(texts))]

    learn = of_baseline if model == BASELINE else of_model

    def learn_all(rows: Rows, seed: int) -> Predict:
        only = set(rows.labels)
        if not only:
            raise UsageError("there is nothing to learn from", where="trials")
        return learn(rows, seed) if len(only) > 1 else lambda texts: [next(iter(only))] * len(texts)

    return learn_all


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One way: how many rows were learnt from, F1 by class and their mean under ``macro``, and the gain over the first
    way in each of these, which is empty for that itself."""

    name: str
    rows: int
    f1: Mapping[str, Interval]
    gain: Mapping[str, Interval]


def trials(learn: Learn, ways: Mapping[str, Way], test: Rows, *, seeds: int = 3) -> list[Trial]:
    """Learn in every way with every seed, and judge all on ``test``.

    Args:
        ways: by name, what to learn from; all others are compared with the first.
        seeds: how many; two at least.

    Raises:
        UsageError: fewer than two seeds, or no held-out rows.
    """
    import numpy as np

    if seeds < 2 or not test.texts:
        raise UsageError("a difference needs two seeds and held-out rows", remedy="give more")
    sets = {name: [way if isinstance(way, Rows) else way(seed) for seed in range(seeds)] for name, way in ways.items()}
    names = sorted({label for rows in sets.values() for one in rows for label in one.labels} | set(test.labels))
    place = {name: i for i, name in enumerate(names)}
    truth = np.array([place[label] for label in test.labels])
    scores: dict[str, tuple[Any, Any]] = {}
    for name, rows in sets.items():
        answers = [[place[label] for label in learn(one, seed)(test.texts)] for seed, one in enumerate(rows)]
        scores[name] = _scores(truth, np.array(answers), len(names))
    first = next(iter(scores.values()))
    return [
        Trial(
            name=name,
            rows=len(sets[name][0].texts),
            f1=_figures(found, names),
            gain={} if found is first else _figures((found[0] - first[0], found[1] - first[1]), names),
        )
        for name, found in scores.items()
    ]


def _scores(truth: Ids, answers: Ids, classes: int) -> tuple[Any, Any]:
    """F1 of each class, and their mean last: with each seed [seeds, classes + 1], and the mean over seeds with each
    group of items left out [groups, classes + 1]."""
    import numpy as np

    from variorum.tasks.metrics.classes import confusion_by_group, per_class_f1

    groups = np.random.default_rng(0).permutation(len(truth)) % min(GROUPS, len(truth))
    counts = np.stack([confusion_by_group(truth, row, groups, classes) for row in answers])  # [seeds, groups, C, C]

    def with_mean(f1: Any) -> Any:
        return np.concatenate([np.nan_to_num(f1), np.nanmean(f1, -1, keepdims=True)], -1)

    whole = counts.sum(1, keepdims=True)
    return with_mean(per_class_f1(whole[:, 0])), with_mean(per_class_f1(whole - counts)).mean(0)


def _figures(scores: tuple[Any, Any], names: Sequence[str]) -> dict[str, Interval]:
    from variorum.tasks.metrics.paired import jackknifed

    found = {}
    for column, name in enumerate([*names, MACRO]):
        parts = jackknifed(scores[0][:, column], scores[1][:, column])
        half = parts.half_width(LEVEL)
        found[name] = Interval(parts.mean, parts.mean - half, parts.mean + half)
    return {MACRO: found.pop(MACRO), **found}
