"""Beam search: several texts kept in sight, the best finished ones returned.

It follows the released code (``transformers``): rules act on log-probabilities; of the candidates of a step, the best
that do not end go on, and those among the first ``num_beams`` that end are compared as finished texts. A search ends by
itself, whatever stands beside it in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, inf

from variorum.inference.lines import Line, Written, wide
from variorum.inference.writer import Writer


class Candidate(NamedTuple):
    """A text of a search with one more token.

    ``total`` is the sum of log-probabilities after the rules, ``own`` the model's of this token, before them.
    """

    total: float
    beam: int
    token: int
    own: float


class Search:
    """The texts in sight for one prompt: ``running`` (as many as there are beams) and ``finished``, the best first."""

    def __init__(self, line: Line) -> None:
        self.beams = line.strategy.beams
        self.limit = line.strategy.max_new_tokens
        # All begin alike, so that only the first counts until they differ.
        self.running = [line.fork() for _ in range(self.beams.num_beams)]
        self.totals = [0.0] + [-inf] * (self.beams.num_beams - 1)
        self.finished: list[tuple[float, Line]] = []
        self.done = False

    def advance(self, candidates: Sequence[Candidate]) -> list[int]:
        """Go on with the best of ``candidates``, which come best first; the running text that each came from."""
        width = self.beams.num_beams
        going: list[tuple[float, int, Line]] = []
        for rank, (total, beam, token, own) in enumerate(candidates):
            if total == -inf or (len(going) == width and rank >= width):
                break
            line = self.running[beam].fork()
            line.add(token, own)
            if line.left:
                going.append((total, beam, line))
            elif rank < width:
                self.finished.append((self.beams.worth(total, len(line.ids)), line))
        self.finished = sorted(self.finished, key=lambda one: -one[0])[:width]
        going = going[:width]
        if not going:
            self.done = True
            return []
        going += [(-inf, *going[0][1:])] * (width - len(going))
        self.totals = [total for total, _, _ in going]
        self.running = [line for _, _, line in going]
        self.done = self._settled()
        return [beam for _, beam, _ in going]

    def _settled(self) -> bool:
        """Whether no text that still runs can count any more."""
        if len(self.finished) < self.beams.num_beams:
            return False
        if self.beams.early_stopping is True:
            return True
        hopeful = self.beams.early_stopping == "never" and self.beams.length_penalty > 0
        length = self.limit if hopeful else len(self.running[0].ids)
        return self.beams.worth(self.totals[0], length) <= self.finished[-1][0]

    def best(self) -> list[Written]:
        """What comes back."""
        return [line.written(score) for score, line in self.finished[: self.beams.num_return_sequences]]


@torch.no_grad()
def search(writer: Writer, lines: Sequence[Line]) -> list[Written]:
    """The best texts for each row of ``writer``, as many for each as its strategy returns (fewer if there are fewer).

    Args:
        writer: B rows, their prompts read.
        lines: the same rows, nothing written yet.
    """
    strategy = lines[0].strategy
    width = strategy.beams.num_beams
    searches = [Search(line) for line in lines]
    open_ = list(searches)
    writer.select([row for row in range(len(lines)) for _ in range(width)])
    while True:
        own = wide(writer.logits).log_softmax(-1)
        scores = own
        if lines[0].changes_scores:
            running = [line for one in open_ for line in one.running]
            scores = torch.stack([line.scores(row) for line, row in zip(running, own, strict=True)])
        parents, staying = [], []
        for row, one in enumerate(open_):
            found = _candidates(one, scores[row * width : (row + 1) * width], own[row * width : (row + 1) * width])
            beams = one.advance(found)
            if not one.done:
                staying.append(one)
                parents += [row * width + beam for beam in beams]
        if not staying:
            return [text for one in searches for text in one.best()]
        open_ = staying
        writer.select(parents)
        tokens = [[line.ids[-1]] for one in open_ for line in one.running]
        writer.step(torch.tensor(tokens, device=own.device))


def _candidates(one: Search, scores: Tensor, own: Tensor) -> list[Candidate]:
    """The best continuations of a search from scores [beams, V], enough that all beams go on if all the best end."""
    totals = scores + scores.new_tensor(one.totals)[:, None]
    ends = len(one.running[0].strategy.end_ids)
    best = totals.flatten().topk(min(max(2, 1 + ends) * len(totals), totals.numel()))
    beams, tokens = best.indices // totals.shape[1], best.indices % totals.shape[1]
    named = zip(best.values.tolist(), beams.tolist(), tokens.tolist(), own[beams, tokens].tolist(), strict=True)
    return [Candidate(*values) for values in named]
