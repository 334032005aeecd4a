"""TF-IDF with logistic regression: the baseline beside every classifier.

It is deterministic, has no seeds, and is what any more costly model must beat on the same split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

NAME = "TF-IDF + logistic regression"


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
