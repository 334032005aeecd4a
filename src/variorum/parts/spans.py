"""Answers whose end is chosen for their start: XLNet's head for questions that may have no answer.

Start and end are not scored apart, as a token head does, but one after the other, and a third score says whether
there is an answer at all. Padded positions begin and end nothing.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from variorum.parts.norms import build_norm
from variorum.spec import heads as spec


@dataclasses.dataclass(frozen=True)
class Answers:
    """The likeliest S starts of each text, best first, with the E likeliest ends of each.

    ``starts`` and ``start_scores`` are [B, S], ``ends`` and ``end_scores`` [B, S, E]: positions, and probabilities (of
    an end given its start). ``no_answer`` [B] is the logit of there being none.
    """

    starts: Tensor
    start_scores: Tensor
    ends: Tensor
    end_scores: Tensor
    no_answer: Tensor


class SpanHead(nn.Module):
    """Hidden states [B, T, D] and their order [B or 1, T] -> start logits [B, T] and the likeliest answers."""

    def __init__(self, head: spec.SpanHead, width: int) -> None:
        super().__init__()
        self.spec = head
        self.start = nn.Linear(width, 1)
        self.end = nn.ModuleDict(
            {
                "dense": nn.Linear(2 * width, width),
                "norm": build_norm(head.norm, width),
                "project": nn.Linear(width, 1),
            }
        )
        self.no_answer = nn.ModuleDict(
            {"dense": nn.Linear(2 * width, width), "project": nn.Linear(width, 1, bias=False)}
        )

    def forward(self, x: Tensor, order: Tensor) -> tuple[Tensor, Answers]:
        padding = (order < 0).expand(len(x), -1)
        logits = self._starts(x, padding)
        chances = logits.softmax(-1)
        best = chances.topk(min(self.spec.starts, x.shape[1]), -1)
        after = x.gather(1, best.indices[..., None].expand(-1, -1, x.shape[-1]))
        ends = self._ends(x, after, padding).softmax(-1).topk(min(self.spec.ends, x.shape[1]), -1)
        # Before one start is chosen, all of them speak, each by its chance.
        expected = torch.einsum("btd,bt->bd", x, chances)
        return logits, Answers(best.indices, best.values, ends.indices, ends.values, self._none(x, expected, order))

    def loss(self, x: Tensor, order: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of the start, and of the end after the right start; labels are [B, 2], or [B, 3].

        The third says 1 where there is no answer, and adds half of its binary cross-entropy (released code).
        """
        padding, rows = (order < 0).expand(len(x), -1), torch.arange(len(x), device=x.device)
        start, end = labels[:, 0].long(), labels[:, 1].long()
        after = x[rows, start][:, None]
        lost = F.cross_entropy(self._starts(x, padding), start)
        lost = (lost + F.cross_entropy(self._ends(x, after, padding)[:, 0], end)) / 2
        if labels.shape[1] < 3:
            return lost
        none = self._none(x, after[:, 0], order)
        return lost + 0.5 * F.binary_cross_entropy_with_logits(none, labels[:, 2].to(none.dtype))

    def _starts(self, x: Tensor, padding: Tensor) -> Tensor:
        logits: Tensor = self.start(x)
        return logits.squeeze(-1).masked_fill(padding, -torch.inf)

    def _ends(self, x: Tensor, after: Tensor, padding: Tensor) -> Tensor:
        """Logits of every end after each of the starts ``after`` [B, S, D], [B, S, T]."""
        shape = (-1, after.shape[1], x.shape[1], -1)
        both = torch.cat((x[:, None].expand(shape), after[:, :, None].expand(shape)), -1)
        logits: Tensor = self.end["project"](self.end["norm"](self.end["dense"](both).tanh()))
        return logits.squeeze(-1).masked_fill(padding[:, None], -torch.inf)

    def _none(self, x: Tensor, start: Tensor, order: Tensor) -> Tensor:
        """The logit of no answer, [B], from the start's state and the last real token's."""
        last = x[torch.arange(len(x), device=x.device), order.expand(len(x), -1).argmax(-1)]
        logits: Tensor = self.no_answer["project"](self.no_answer["dense"](torch.cat((start, last), -1)).tanh())
        return logits.squeeze(-1)
