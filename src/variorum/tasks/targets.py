"""What a classifier's labels are: one of several for each text, or any of several. All that differs between the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from variorum.errors import UsageError
from variorum.tasks import decisions
from variorum.tasks.decisions import Decision
from variorum.tasks.labels import LabelSet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from variorum.spec.heads import Problem
    from variorum.tasks.decisions import Bools, Floats

    Weights = str | Mapping[Any, float] | None


class OneOf:
    """One label of several: ``y`` [N] holds labels of any one type that sorts."""

    problem: ClassVar[Problem] = "single_label"

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes = classes

    @classmethod
    def of(cls, y: Any) -> OneOf:
        """The labels that occur in ``y``.

        Raises:
            ValueError: numbers that are no classes.
            UsageError: there is only one.
        """
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        classes = np.unique(labels)
        if len(classes) < 2:
            raise UsageError(
                f"every row has the label {str(classes[0])!r}, and one class cannot be told apart",
                where="labels", remedy="give rows of another class too",
            )  # fmt: skip
        return cls(classes)

    def places(self, y: Any) -> dict[Any, int]:
        """The column of each label; those of ``y`` that are not known follow on those that are."""
        return _places(self.classes.tolist(), column_or_1d(y).tolist())

    def matrix(self, y: Any) -> Bools:
        """Which labels are right, [N, labels], each in its place."""
        labels, place = column_or_1d(y).tolist(), self.places(y)
        made = np.zeros((len(labels), len(place)), dtype=bool)
        made[np.arange(len(labels)), [place[label] for label in labels]] = True
        return made

    def targets(self, y: Any) -> list[Any]:
        """What a model is asked for.

        Raises:
            UsageError: a label that it cannot give.
        """
        return _known(self, y).argmax(-1).tolist()

    def weights(self, weight: Weights, y: Any) -> Floats:
        """Of each row [N], by its class."""
        return np.asarray(compute_sample_weight(weight, column_or_1d(y)))

    def probabilities(self, logits: Any, temperature: float) -> Floats:
        scaled = np.asarray(logits, dtype=np.float64) / temperature
        grown = np.exp(scaled - scaled.max(-1, keepdims=True))
        return np.asarray(grown / grown.sum(-1, keepdims=True))

    def chosen(self, probabilities: Floats, decision: Decision) -> Bools:
        """The label whose probability is the largest multiple of its threshold, [N, labels]."""
        return decisions.one_hot(probabilities / np.asarray(decision.thresholds or 1.0))

    def confidence(self, probabilities: Floats, chosen: Bools) -> Floats:
        """The probability of each row's answer, [N]."""
        return np.asarray(probabilities[chosen])

    def labels(self, chosen: Bools) -> NDArray[Any]:
        """Answers in the form of ``y``."""
        return np.asarray(self.classes[chosen.argmax(-1)])

    def temperature(self, logits: Any, truth: Bools) -> float:
        """The one under which the right labels are likeliest."""
        doubt = 1 / (len(truth) + 2)  # as if one more row were wrong (Platt 1999): no score is infinitely sure
        wanted = (1 - doubt) * truth + doubt / truth.shape[1]
        return decisions.coolest(
            lambda at: -float((wanted * np.log(self.probabilities(logits, at) + 1e-300)).sum(-1).mean())
        )

    def thresholds(self, probabilities: Floats, truth: Bools) -> tuple[float, ...]:
        """Those with the best macro-F1."""
        return decisions.shares(probabilities, truth)


class AnyOf:
    """Any of several labels: ``y`` [N] holds them joined by a separator, or is an indicator matrix [N, labels]."""

    problem: ClassVar[Problem] = "multi_label"

    def __init__(self, classes: NDArray[Any], separator: str) -> None:
        self.classes, self.separator = classes, separator

    @classmethod
    def of(cls, y: Any, separator: str) -> AnyOf:
        """The labels that occur in ``y``.

        Raises:
            UsageError: there is none.
        """
        if not separator:
            return cls(np.arange(np.asarray(y).shape[1]), separator)
        names = LabelSet.of(label for row in y for label in _split(row, separator)).names
        if not names:
            raise UsageError("no row has a label", where="labels", remedy="name the column that holds them")
        return cls(np.array(names), separator)

    def places(self, y: Any) -> dict[Any, int]:
        """As of :class:`OneOf`."""
        rows = [_split(row, self.separator) for row in y] if self.separator else []
        return _places(self.classes.tolist(), [label for row in rows for label in row])

    def matrix(self, y: Any) -> Bools:
        """As of :class:`OneOf`."""
        if not self.separator:
            return np.asarray(y).astype(bool)
        place = self.places(y)
        made = np.zeros((len(y), len(place)), dtype=bool)
        for number, row in enumerate(y):
            made[number, [place[label] for label in _split(row, self.separator)]] = True
        return made

    def targets(self, y: Any) -> list[Any]:
        """As of :class:`OneOf`."""
        return _known(self, y).astype(float).tolist()

    def weights(self, weight: Weights, y: Any) -> Floats:
        """Of each row [N]: the mean over its labels, 1 for a row without any."""
        if weight is None:
            return np.ones(len(y))
        matrix = self.matrix(y)
        share = len(matrix) / np.maximum(1, 2 * matrix.sum(0)) if isinstance(weight, str) else np.array(
            [weight.get(name, 1.0) for name in self.classes.tolist()]
        )  # fmt: skip
        count = matrix.sum(-1)
        return np.asarray(np.where(count > 0, (matrix * share).sum(-1) / np.maximum(1, count), 1.0))

    def probabilities(self, logits: Any, temperature: float) -> Floats:
        """Of each label on its own."""
        from scipy.special import expit

        return np.asarray(expit(np.asarray(logits, dtype=np.float64) / temperature))

    def chosen(self, probabilities: Floats, decision: Decision) -> Bools:
        """Every label from its threshold on, one half unless tuned, [N, labels]."""
        return np.asarray(probabilities >= np.asarray(decision.thresholds or 0.5))

    def confidence(self, probabilities: Floats, chosen: Bools) -> Floats:
        """The probability of the least certain of a row's decisions, [N]."""
        return np.asarray(np.where(chosen, probabilities, 1 - probabilities).min(-1))

    def labels(self, chosen: Bools) -> NDArray[Any]:
        """Answers in the form of ``y``."""
        if not self.separator:
            return chosen.astype(int)
        return np.array([self.separator.join(self.classes[row]) for row in chosen], dtype=object)

    def temperature(self, logits: Any, truth: Bools) -> float:
        """The one under which the right labels are likeliest."""

        wanted = (truth * len(truth) + 1) / (len(truth) + 2)  # see OneOf

        def loss(at: float) -> float:
            scaled = np.asarray(logits, dtype=np.float64) / at
            return float((np.logaddexp(0, scaled) - wanted * scaled).mean())

        return decisions.coolest(loss)

    def thresholds(self, probabilities: Floats, truth: Bools) -> tuple[float, ...]:
        """Those with the best F1 of each label."""
        return decisions.borders(probabilities, truth)


Targets = OneOf | AnyOf


def _known(targets: Targets, y: Any) -> Bools:
    """The labels of rows, all of which are known."""
    matrix, names = targets.matrix(y), list(targets.places(y))
    if matrix.shape[1] > len(targets.classes):
        raise UsageError(
            f"the label {names[len(targets.classes)]!r} is not known", where="labels",
            remedy=f"known: {', '.join(map(str, targets.classes.tolist()))}",
        )  # fmt: skip
    return matrix


def _split(cell: Any, separator: str) -> list[str]:
    return [label for part in str(cell).split(separator) if (label := part.strip())]


def _places(known: Sequence[Any], found: Sequence[Any]) -> dict[Any, int]:
    """The column of each label: the known ones in their order, then the others in theirs."""
    place = {label: i for i, label in enumerate(known)}
    return place | {label: len(place) + i for i, label in enumerate(sorted({x for x in found if x not in place}))}
