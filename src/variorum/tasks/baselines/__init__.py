"""What any costlier model must beat on the same rows: simple, deterministic, fitted in seconds, for each kind of task.

``baseline("classify").fit(X, y).predict(X)`` takes rows as the task of that kind does, and answers as it does.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol, Self

from variorum.errors import NotFound, nearest

_CLASSES = ("linear:Logistic", "linear:Machine")
_PAIRS = ("paired:PairLogistic",)
_ANSWERS = ("overlap:Overlap",)
_NUMBERS = ("linear:Ridge",)
_PAIR_NUMBERS = ("paired:PairRidge", "paired:Cosine")
BASELINES: dict[str, Sequence[str]] = {
    "classify": _CLASSES,
    "classify-text": _CLASSES,
    "pairs": _PAIRS,
    "pairs-text": _PAIRS,
    "number": _NUMBERS,
    "pairs-number": _PAIR_NUMBERS,
    "pairs-number-text": _PAIR_NUMBERS,
    "embed": ("paired:Nearest",),
    "embed-score": ("paired:Cosine",),
    "tag": ("tagging:LinearTags", "tagging:FrequentTags"),
    "answer": _ANSWERS,
    "answer-text": _ANSWERS,
    "seq2seq": ("writing:Lead", "writing:Copy"),
    "search": ("bm25:Bm25",),
}
"""Where the baselines of each kind of task are, the usual one first."""


class Baseline(Protocol):
    """A simple answer to a task.

    Attributes:
        name: what it is called in reports.
    """

    name: str

    def fit(self, X: Sequence[Any], y: Sequence[Any]) -> Self:
        """Learn from rows and what is right for each."""

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """An answer for each row, in order."""


def baselines(kind: str) -> list[Baseline]:
    """Every baseline of a kind of task, unfitted, the usual one first.

    Raises:
        NotFound: there is no such kind.
    """
    if kind not in BASELINES:
        raise NotFound(f"no baseline for {kind!r}", remedy=nearest(kind, BASELINES) or f"known: {', '.join(BASELINES)}")
    found: list[Baseline] = []
    for place in BASELINES[kind]:
        module, _, name = place.partition(":")
        found.append(getattr(importlib.import_module(f"{__name__}.{module}"), name)())
    return found


def baseline(kind: str) -> Baseline:
    """The usual baseline of a kind of task.

    Raises:
        NotFound: there is no such kind.
    """
    return baselines(kind)[0]
