"""The likeliest tags of a sentence that a scheme allows one after the other (Viterbi's algorithm)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from variorum.tasks.schemes import NOTHING, Scheme

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

NEVER = -np.inf
TINY = 1e-300
"""The least probability, so that no legal path is impossible."""


@dataclass(frozen=True)
class Rules:
    """What may follow what.

    Attributes:
        follows: whether tag j may follow tag i, [tags, tags].
        begins, ends: whether a sentence may begin or end with a tag, [tags].
    """

    follows: Bools
    begins: Bools
    ends: Bools

    @classmethod
    def of(cls, scheme: Scheme, tags: Sequence[str]) -> Rules:
        """Those of a scheme for its ``tags``."""
        read = [NOTHING, *map(scheme.read, tags)]
        allowed = np.array([[scheme.allows(before, tag) for tag in read] for before in read])
        return cls(allowed[1:, 1:], allowed[0, 1:], allowed[1:, 0])


def best_path(probabilities: Floats, rules: Rules) -> list[int]:
    """The tags with the largest product of probabilities [words, tags] among all that ``rules`` allow."""
    if not len(probabilities):
        return []
    steps = np.where(rules.follows, 0.0, NEVER)
    scores = np.log(np.maximum(probabilities, TINY))
    best = scores[0] + np.where(rules.begins, 0.0, NEVER)
    before = []
    for row in scores[1:]:
        reached = best[:, None] + steps
        before.append(reached.argmax(0))
        best = reached.max(0) + row
    path = [int((best + np.where(rules.ends, 0.0, NEVER)).argmax())]
    for places in reversed(before):
        path.append(int(places[path[-1]]))
    return path[::-1]


def softmax(scores: ArrayLike) -> Floats:
    """Probabilities of scores, over the last axis."""
    values = np.asarray(scores, dtype=np.float64)
    grown = np.exp(values - values.max(-1, keepdims=True))
    return np.asarray(grown / grown.sum(-1, keepdims=True))
