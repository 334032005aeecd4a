"""Linear models of word 1–2-grams weighted by TF-IDF: to classes, and to numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from variorum.tasks.baselines.cleaning import USUAL, clean

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import Pipeline

NAME = "TF-IDF + logistic regression"
TOKEN = r"\w+|[^\w\s]"
ENOUGH = 100
"""Texts from which on a word that stands in one of them only is left out."""


def tfidf(*, max_iter: int = 400) -> Pipeline:
    """An untrained baseline: word 1–2-grams with sublinear counts, then multinomial logistic regression."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2),
        LogisticRegression(C=10.0, max_iter=max_iter),
    )


def fit_and_predict(train: Sequence[str], labels: Sequence[int], test: Sequence[str]) -> tuple[list[int], int]:
    """Fit on the training rows and predict the others; also says how many weights were fitted."""
    model = tfidf()
    model.fit(list(train), list(labels))
    weights = model[-1]
    return [int(x) for x in model.predict(list(test))], int(weights.coef_.size + weights.intercept_.size)


def words(texts: Sequence[str], steps: Sequence[str] = USUAL) -> TfidfVectorizer:
    """An unfitted vectoriser of 1–2-grams for these texts, cleaned by these steps; each word and each sign counts.

    Where there are enough texts, what stands in one of them only is left out, unless nothing else is there.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    repeated = len(texts) >= ENOUGH and _repeats(texts)
    return TfidfVectorizer(
        ngram_range=(1, 2), sublinear_tf=True, min_df=2 if repeated else 1, preprocessor=partial(clean, steps=steps),
        token_pattern=TOKEN,
    )  # fmt: skip


def _repeats(texts: Sequence[str]) -> bool:
    """Whether any word stands in two of the texts."""
    seen: set[str] = set()
    for text in texts:
        held = set(text.split())
        if not seen.isdisjoint(held):
            return True
        seen |= held
    return False


@dataclass
class Linear:
    """What the linear baselines share.

    Args:
        steps: of cleaning, as :mod:`variorum.tasks.baselines.cleaning` has them.
    """

    name: ClassVar[str]
    steps: Sequence[str] = USUAL
    model_: Any = field(init=False, repr=False)

    def fit(self, X: Sequence[str], y: Sequence[Any]) -> Self:
        """Learn from texts and their labels or numbers; without a word, or where all are one, the commonest answer."""
        from sklearn.pipeline import make_pipeline

        texts = [clean(text, self.steps) for text in X]
        if not any(text.split() for text in texts) or len(set(y)) == 1:
            self.model_ = self._constant().fit([[0]] * len(texts), y)
        else:
            self.model_ = make_pipeline(words(texts, self.steps), self._learner()).fit(list(X), y)
        return self

    def predict(self, X: Sequence[str]) -> list[Any]:
        """A label or a number for each text."""
        if not len(X):
            return []
        found: list[Any] = self.model_.predict(list(X)).tolist()
        return found

    def _learner(self) -> Any:
        raise NotImplementedError

    def _constant(self) -> Any:
        from sklearn.dummy import DummyClassifier

        return DummyClassifier(strategy="most_frequent")


class Logistic(Linear):
    """Logistic regression on TF-IDF."""

    name = NAME

    def _learner(self) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=10.0, max_iter=400)

    def predict_proba(self, X: Sequence[str]) -> Any:
        """Probabilities [N, classes], classes in scikit-learn's order."""
        return self.model_.predict_proba(list(X))

    def top(self, count: int = 10) -> dict[Any, list[tuple[str, float]]]:
        """The n-grams that speak most for each class, with their weights; none where there was nothing to learn."""
        return top(self.model_, count)


class Machine(Linear):
    """A linear support vector machine on TF-IDF."""

    name = "TF-IDF + linear SVM"

    def _learner(self) -> Any:
        from sklearn.svm import LinearSVC

        return LinearSVC(random_state=0)

    def top(self, count: int = 10) -> dict[Any, list[tuple[str, float]]]:
        """As :meth:`Logistic.top`."""
        return top(self.model_, count)


class Ridge(Linear):
    """Ridge regression on TF-IDF."""

    name = "TF-IDF + ridge"

    def _learner(self) -> Any:
        from sklearn.linear_model import Ridge as Regression

        return Regression(alpha=1.0, solver="sparse_cg")

    def _constant(self) -> Any:
        from sklearn.dummy import DummyRegressor

        return DummyRegressor()


def top(model: Any, count: int) -> dict[Any, list[tuple[str, float]]]:
    """The n-grams with the largest weights for each class of a fitted pipeline."""
    import numpy as np

    if not hasattr(model, "steps"):
        return {}
    vectoriser, linear = model[0], model[-1]
    weights = linear.coef_ if len(linear.coef_) > 1 else np.vstack([-linear.coef_[0], linear.coef_[0]])
    names = vectoriser.get_feature_names_out()
    best = np.argsort(-weights, axis=1, kind="stable")[:, :count]
    return {
        label: [(str(names[i]), float(row[i])) for i in places]
        for label, row, places in zip(linear.classes_.tolist(), weights, best, strict=True)
    }
