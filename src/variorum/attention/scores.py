"""Everything about attention's scores but query·key, said and not yet computed: each backend asks for what it needs."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from variorum.parts.positions import LayerPositions
from variorum.parts.where import Where

PLAIN = LayerPositions()


@dataclasses.dataclass(frozen=True)
class Scores:
    """query·key times ``scale``, and what comes on top.

    ``positions`` adds before the scale and after it. ``asked`` [B, H, Q, d] are the queries as its hook wants them,
    where the dot product sees others. ``softcap`` bends the sum; ``dropout`` falls on its softmax.
    """

    scale: float
    positions: LayerPositions = PLAIN
    asked: Tensor | None = None
    softcap: float | None = None
    dropout: float = 0.0

    def weighed(self, products: Tensor, q: Tensor, k: Tensor, where: Where) -> Tensor:
        """What the softmax sees, [B, H, Q, K], from query·key of the same shape."""
        added, bias = self.added(q, k, where), self.positions.bias(where, q.dtype)
        logits = (products if added is None else products + added) * self.scale
        logits = logits if bias is None else logits + bias
        return logits if self.softcap is None else self.softcap * (logits / self.softcap).tanh()

    def extra(self, q: Tensor, k: Tensor, where: Where) -> Tensor | None:
        """What is added to scaled query·key, [B or 1, H, Q, K]; ``None`` for nothing."""
        added, bias = self.added(q, k, where), self.positions.bias(where, q.dtype)
        if added is None:
            return bias
        return added * self.scale + (0 if bias is None else bias)

    def added(self, q: Tensor, k: Tensor, where: Where) -> Tensor | None:
        """The hook before the scale; ``q`` are the queries as the dot product sees them."""
        return self.positions.scores(q if self.asked is None else self.asked, k, where)


def score_type(dtype: torch.dtype) -> torch.dtype:
    """In what a softmax is computed: float32 or better."""
    return torch.promote_types(dtype, torch.float32)
