"""Search by words: Okapi BM25 (Robertson and Walker 1994); a word's rarity counts as in Lucene, never below zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

from variorum.tasks.baselines.cleaning import USUAL, clean
from variorum.tasks.baselines.linear import TOKEN


@dataclass
class Bm25:
    """Texts by their likeness to a question.

    Args:
        k1: how soon further occurrences of a word stop counting.
        b: how much long texts are held back.
        steps: of cleaning.
    """

    name: ClassVar[str] = "BM25"
    k1: float = 1.2
    b: float = 0.75
    steps: Sequence[str] = USUAL
    words_: Any = field(init=False, repr=False)
    weights_: Any = field(init=False, repr=False)

    def fit(self, X: Sequence[str], y: Sequence[Any] | None = None) -> Self:
        """Take in the texts that are searched."""
        import numpy as np
        from sklearn.feature_extraction.text import CountVectorizer

        self.words_ = CountVectorizer(preprocessor=partial(clean, steps=self.steps), token_pattern=TOKEN)
        self.words_.fit([*X, "."])
        counts = self.words_.transform(X).tocoo()
        lengths = np.bincount(counts.row, counts.data, minlength=len(X))
        held = np.bincount(counts.col, minlength=counts.shape[1])
        rare = np.log1p((len(X) - held + 0.5) / (held + 0.5))
        dampened = self.k1 * (1 - self.b + self.b * lengths / max(lengths.mean(), 1))
        counts = counts.astype(float)
        counts.data = rare[counts.col] * counts.data * (self.k1 + 1) / (counts.data + dampened[counts.row])
        self.weights_ = counts.tocsr()
        return self

    def scores(self, questions: Sequence[str]) -> Any:
        """How much each text answers each question, [questions, texts]."""
        return (self.words_.transform(questions) @ self.weights_.T).toarray()

    def predict(self, X: Sequence[str], count: int = 10) -> list[list[int]]:
        """The places of the ``count`` best texts for each question, best first; of equal ones the earlier first."""
        import numpy as np

        if not len(X):
            return []
        found: list[list[int]] = np.argsort(-self.scores(X), axis=1, kind="stable")[:, :count].tolist()
        return found
