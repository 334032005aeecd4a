"""Pairs of texts: which class a pair is of, or how much it is of something.

The tokenizer's own wrapper puts the two side by side, with segments where the model has them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from variorum.objectives.labels import Labels
from variorum.tasks.classify import HEAD, Classifier
from variorum.tasks.estimator import Columns, Estimator, held_out, texts_of
from variorum.tasks.examined import Examined, Read, of_numbers
from variorum.tasks.examples import Example, Padded, inputs_of
from variorum.tasks.metrics.correlation import agreement, agreement_of
from variorum.tasks.scores import scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from variorum.face import Model
    from variorum.tasks.metrics.intervals import Figure

    Floats = NDArray[np.float64]


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PairClassifier(Classifier):
    """Pairs of texts to labels; everything else is as in :class:`Classifier`."""

    kind: ClassVar[str] = "pairs"
    columns: ClassVar[Columns] = Columns(("text1", "text2"), "label")
    texts: ClassVar[Literal[1, 2]] = 2


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Regressor(RegressorMixin, Estimator):
    """Texts to numbers, learned by squared error on numbers of mean 0 and deviation 1."""

    kind: ClassVar[str] = "number"
    columns: ClassVar[Columns] = Columns(("text",), "score")
    texts: ClassVar[Literal[1, 2]] = 1

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn.

        Args:
            X: texts [N], or pairs of them.
            y: a number each.
            sample_weight: by which each row's loss is multiplied, [N].
        """
        texts, numbers = texts_of(X, self.texts), _numbers(y)
        check_consistent_length(texts, numbers, sample_weight)
        learned, held = held_out(len(texts), self.validation, self.seed)
        self.begun(numbers[learned])
        words = [one for i in learned for one in ((texts[i],) if self.texts == 1 else texts[i])]
        model = self.started(HEAD, words, labels=(self.columns.target,), problem="regression")
        wanted = ((numbers - self.mean_) / self.deviation_).tolist()
        weight = np.ones(len(texts)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        encodings = self.encode(model, [texts[i] for i in learned])
        examples = [
            Example(inputs=inputs_of(model, one), target=wanted[i], weight=float(weight[i]))
            for i, one in zip(learned, encodings, strict=True)
        ]
        kept, truth = [texts[i] for i in held], numbers[held]

        def judge(model: Model) -> float:
            found = scores(model, self.encode(model, kept))[:, 0].double().numpy() * self.deviation_ + self.mean_
            return -float(np.mean((found - truth) ** 2))

        self.tune(model, Labels(HEAD), examples, Padded(model.tokenizer.pad_id or 0), judge if held else None)
        return self

    def predict(self, X: Any) -> Floats:
        """A number for each row, [N]."""
        check_is_fitted(self)
        found = scores(self.model_, self.encode(self.model_, texts_of(X, self.texts)))
        return np.asarray(found[:, 0].double().numpy() * self.deviation_ + self.mean_)

    def answers(self, X: Any) -> list[dict[str, Any]]:
        """The number of each row."""
        return [{self.columns.target: float(value)} for value in self.predict(X)]

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """Rank and linear correlation, and errors."""
        return agreement(self.predict(X), _numbers(y))

    def figures(self, predicted: Any, y: Any) -> dict[str, Figure]:
        """Rank correlation, and the mean absolute error."""
        return agreement_of(predicted, _numbers(y))

    def examined(self, X: Any, y: Any) -> Examined:
        """How far its numbers are from what is right."""
        texts, right = texts_of(X, self.texts), _numbers(y)
        found, read = self.predict(texts), Read.by(self.model_, texts, self.limit(self.model_))
        return of_numbers(read, self.figures(found, right), found, right, self.columns.target)

    def begun(self, y: Any) -> None:
        """Take the scale of the numbers."""
        self.mean_, self.deviation_ = float(y.mean()), float(y.std()) or 1.0

    @classmethod
    def target(cls, cell: str) -> float:
        try:
            value = float(cell)
        except ValueError:
            value = np.nan
        if not np.isfinite(value):
            raise ValueError(f"{cell[:40]!r} is no number")
        return value

    def learned(self) -> dict[str, Any]:
        """The scale of the numbers."""
        return {"mean": self.mean_, "deviation": self.deviation_}

    def recall(self, learned: Mapping[str, Any]) -> None:
        """Take back the scale."""
        self.mean_, self.deviation_ = float(learned["mean"]), float(learned["deviation"])


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class PairRegressor(Regressor):
    """Pairs of texts to numbers, such as how alike they are."""

    kind: ClassVar[str] = "pairs-number"
    columns: ClassVar[Columns] = Columns(("text1", "text2"), "score")
    texts: ClassVar[Literal[1, 2]] = 2


def _numbers(y: Any) -> Floats:
    found = np.asarray(column_or_1d(y), dtype=np.float64)
    if not np.isfinite(found).all():
        raise ValueError("Input y contains NaN or infinity")
    return found
