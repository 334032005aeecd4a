"""A row while it is written, and what is left of it when it has ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from variorum.inference.spelling import Spelling
from variorum.inference.strategy import Strategy


@dataclasses.dataclass(frozen=True)
class Guesses:
    """How drafts fared: of ``guessed`` tokens ``accepted`` were written, in ``steps`` readings by the model."""

    guessed: int
    accepted: int
    steps: int


@dataclasses.dataclass(frozen=True)
class Written:
    """One row of new tokens.

    ``log_probabilities`` has one entry per token, the end token included: the model's own, whatever was ruled out.
    ``score`` is what a search compares texts by (see :class:`~variorum.inference.strategy.Beams`); ``guesses`` is there
    where there were drafts.
    """

    ids: list[int]
    log_probabilities: list[float]
    stopped: bool
    score: float | None = None
    guesses: Guesses | None = None


class Line:
    """One row being written.

    Args:
        prompt: what the writing stack has read before it.
        strategy: what rules out tokens, and ends it.
        spelling: its text, where stop strings or a reader need it while it is written.
    """

    def __init__(self, prompt: Sequence[int], strategy: Strategy, spelling: Spelling | None = None) -> None:
        self.prompt, self.strategy, self.spelling = prompt, strategy, spelling
        self.ids: list[int] = []
        self.log_probabilities: list[float] = []
        self.stopped = False
        self.piece = ""  # of text, that the last token made certain
        self.guesses: Guesses | None = None

    @property
    def left(self) -> int:
        """How many tokens may follow."""
        return 0 if self.stopped else self.strategy.max_new_tokens - len(self.ids)

    @property
    def changes_scores(self) -> bool:
        """Whether :meth:`scores` differs from what it is given."""
        return self.strategy.changes_scores

    def scores(self, scores: Tensor, guessed: Sequence[int] = ()) -> Tensor:
        """The model's scores [V] of its next token, or of the one after ``guessed``, after the rules."""
        return self.strategy.scores(scores, self.prompt, [*self.ids, *guessed])

    def add(self, token: int, log_probability: float) -> None:
        """Write a token."""
        self.ids.append(token)
        self.log_probabilities.append(log_probability)
        self.stopped = token in self.strategy.end_ids
        if self.spelling is not None:
            self.piece += self.spelling.push(token)
            self.stopped = self.stopped or self.spelling.stopped

    def fork(self) -> Self:
        """A copy that goes its own way."""
        other = type(self)(self.prompt, self.strategy, None if self.spelling is None else self.spelling.fork())
        other.ids, other.log_probabilities = list(self.ids), list(self.log_probabilities)
        return other

    def take(self) -> str:
        """The text that became certain since it was last asked for."""
        piece, self.piece = self.piece, ""
        return piece

    def written(self, score: float | None = None) -> Written:
        """What it is now."""
        return Written(self.ids, self.log_probabilities, self.stopped, score, self.guesses)


def wide(scores: Tensor) -> Tensor:
    """Scores in float32 at least."""
    return scores if scores.dtype == torch.float64 else scores.float()


def log_probability(scores: Tensor, token: int) -> float:
    """Of a token, given a model's scores [V]."""
    return float(scores[token] - scores.logsumexp(-1))
