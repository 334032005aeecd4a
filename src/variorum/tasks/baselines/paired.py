"""Pairs of texts: the words of both, how many they share, and the cosine between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from variorum.tasks.baselines.cleaning import USUAL
from variorum.tasks.baselines.linear import words

Pair = Sequence[str]


@dataclass
class Features:
    """What is counted of a pair: its texts' TF-IDF side by side, their cosine, and how many words they share."""

    steps: Sequence[str] = USUAL
    words_: Any = field(init=False, repr=False)

    def fit(self, X: Sequence[Pair]) -> Self:
        """Learn the words of both sides."""
        texts = [text for pair in X for text in pair]
        self.words_ = words(texts, self.steps).fit([*texts, "."])
        return self

    def sides(self, X: Sequence[Pair]) -> tuple[Any, Any]:
        """TF-IDF of the first texts and of the second ones, sparse, rows of length 1."""
        first, second = (self.words_.transform([pair[side] for pair in X]) for side in (0, 1))
        return first, second

    def transform(self, X: Sequence[Pair]) -> Any:
        """A sparse row for each pair, the cosine and the share of words last."""
        from scipy.sparse import csr_matrix, hstack

        first, second = self.sides(X)
        shared = first.sign().multiply(second.sign()).sum(1)
        either = first.sign().sum(1) + second.sign().sum(1) - shared
        alike = csr_matrix(first.multiply(second).sum(1))
        return hstack([first, second, alike, csr_matrix(shared / (either + (either == 0)))], format="csr")


@dataclass
class _OnPairs:
    name: ClassVar[str]
    steps: Sequence[str] = USUAL
    features_: Features = field(init=False, repr=False)
    model_: Any = field(init=False, repr=False)

    def fit(self, X: Sequence[Pair], y: Sequence[Any]) -> Self:
        """Learn from pairs and what is right for each."""
        self.features_ = Features(self.steps).fit(X)
        self.model_ = self._learner(y).fit(self.features_.transform(X), y)
        return self

    def predict(self, X: Sequence[Pair]) -> list[Any]:
        """An answer for each pair."""
        if not len(X):
            return []
        found: list[Any] = self.model_.predict(self.features_.transform(X)).tolist()
        return found

    def _learner(self, y: Sequence[Any]) -> Any:
        raise NotImplementedError


class PairLogistic(_OnPairs):
    """Pairs to classes."""

    name = "TF-IDF of both + logistic regression"

    def _learner(self, y: Sequence[Any]) -> Any:
        from sklearn.dummy import DummyClassifier
        from sklearn.linear_model import LogisticRegression

        if len(set(y)) == 1:
            return DummyClassifier(strategy="most_frequent")
        return LogisticRegression(C=10.0, max_iter=400)


class PairRidge(_OnPairs):
    """Pairs to numbers."""

    name = "TF-IDF of both + ridge"

    def _learner(self, y: Sequence[Any]) -> Any:
        from sklearn.linear_model import Ridge

        return Ridge(alpha=1.0, solver="sparse_cg")


@dataclass
class Cosine:
    """How alike two texts are by their words alone; from numbers it learns which words are rare, and no more."""

    name: ClassVar[str] = "TF-IDF cosine"
    steps: Sequence[str] = USUAL
    features_: Features = field(init=False, repr=False)

    def fit(self, X: Sequence[Pair], y: Sequence[Any] | None = None) -> Self:
        """Learn how rare words are."""
        self.features_ = Features(self.steps).fit(X)
        return self

    def predict(self, X: Sequence[Pair]) -> list[Any]:
        """The cosine of each pair."""
        found: list[Any] = self.features_.transform(X)[:, -2].toarray()[:, 0].tolist() if len(X) else []
        return found


class Nearest(Cosine):
    """For each first text the second one that is most alike by its words, among those of all pairs."""

    name: ClassVar[str] = "TF-IDF, the nearest"

    def predict(self, X: Sequence[Pair]) -> list[Any]:
        """The text found for each pair's first."""
        if not len(X):
            return []
        import numpy as np

        first, second = self.features_.sides(X)
        return [X[place][1] for place in np.asarray((first @ second.T).argmax(1)).ravel()]
