"""Texts out of texts, without a word of one's own: the source again, and its first sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from variorum.text.sentence_ends import sentence_starts


class Copy:
    """The source as it is."""

    name: ClassVar[str] = "copy of the source"

    def fit(self, X: Sequence[str], y: Sequence[Any] | None = None) -> Self:
        """There is nothing to learn."""
        return self

    def predict(self, X: Sequence[str]) -> list[str]:
        """Each source."""
        return list(X)


class Lead(Copy):
    """The source's first sentence."""

    name = "first sentence of the source"

    def predict(self, X: Sequence[str]) -> list[str]:
        """The first sentence of each source."""
        return [text[: sentence_starts(text)[1]].strip() if len(sentence_starts(text)) > 1 else text for text in X]
