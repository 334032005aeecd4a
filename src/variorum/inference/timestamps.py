"""Whisper's time stamps: tokens between which what is spoken stands (Radford et al. 2022, section 2.3).

What may follow what is as in the released code: stamps come in pairs, the end of one stretch and the beginning of the
next, and never go back; a text begins with one of the first second; and where all stamps together are likelier than any
word, one is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor, inf

from variorum.inference.lines import Line
from variorum.inference.strategy import Strategy

#: Seconds from one stamp to the next.
STEP = 0.02
#: A text begins within so many stamps.
LATEST = 50


@dataclass(frozen=True)
class Stamps:
    """Where stamps stand in the vocabulary: from ``first`` on; words before ``end``, the id that ends a text."""

    first: int
    end: int

    def allowed(self, scores: Tensor, written: Sequence[int]) -> Tensor:
        """Scores [V] of the next token after ``written``, what may not follow at -inf."""
        scores = scores.clone()
        scores[self.first - 1] = -inf  # the token that says that there are no stamps
        last, before = (len(written) >= n and written[-n] >= self.first for n in (1, 2))
        if last:
            if before or len(written) == 1:
                scores[self.first :] = -inf
            else:
                scores[: self.end] = -inf
        stamps = [one for one in written if one >= self.first]
        if stamps:
            scores[self.first : stamps[-1] + (not last or before)] = -inf
        if not written:
            scores[: self.first] = -inf
            scores[self.first + LATEST + 1 :] = -inf
        chances = scores.log_softmax(-1)
        if chances[self.first :].logsumexp(-1) > chances[: self.first].max():
            scores[: self.first] = -inf
        return scores

    def segments(self, ids: Sequence[int], length: float) -> Iterator[tuple[float, float, list[int]]]:
        """Stretches of speech as (begin, end, ids of their words), in seconds of a window that is ``length`` long.

        Words that no stamp closes end with the window.
        """
        begin, words = 0.0, list[int]()
        for one in ids:
            if one < self.first:
                words.append(one)
                continue
            at = min((one - self.first) * STEP, length)
            if words:
                yield begin, at, words
            begin, words = at, []
        if words:
            yield begin, length, words


class StampedLine(Line):
    """A row whose words stand between time stamps."""

    def __init__(self, prompt: Sequence[int], strategy: Strategy, stamps: Stamps) -> None:
        super().__init__(prompt, strategy)
        self.stamps = stamps

    @property
    def changes_scores(self) -> bool:
        return True

    def scores(self, scores: Tensor, guessed: Sequence[int] = ()) -> Tensor:
        return self.stamps.allowed(super().scores(scores, guessed), [*self.ids, *guessed])
