"""XLNet's two streams: content sees itself and what came before it in the permutation, a query only what came before.

The query stream starts from one learned vector, so it cannot know the token it must predict; keys and values always
come from the content stream.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from variorum.parts.where import Where

Query = tuple[Tensor, Where]


def permutation_mask(ranks: Tensor) -> Tensor:
    """1 where token i may not see token j: rank_j >= rank_i, on every row. ranks int [B, T] -> [B, T, T]."""
    return (ranks[:, None, :] >= ranks[:, :, None]).long()


def streams(
    where: Where, perm_mask: Tensor | None, targets: Tensor | None, vector: Tensor, batch: int
) -> tuple[Where, Query | None]:
    """The content stream's view, and the query stream's start [B, P, D] and view where ``targets`` ask for it.

    Args:
        perm_mask: 1 where i may not see j, [B, T, T].
        targets: one-hot [B, P, T]: the position that each of P queries predicts.
        vector: the learned start, [D].
    """
    content, allowed = where, None
    if perm_mask is not None:
        allowed = perm_mask <= 0
        itself = torch.eye(perm_mask.shape[-1], dtype=torch.bool, device=perm_mask.device)
        content = dataclasses.replace(where, allowed=allowed | itself, memo={})
    if targets is None:
        return content, None
    at = targets.argmax(-1)
    picked = {
        name: getattr(where, name).expand(batch, -1).gather(1, at)
        for name in ("q_positions", "q_order", "q_segments")
        if getattr(where, name) is not None
    }
    if allowed is not None:
        allowed = allowed.gather(1, at[:, :, None].expand(-1, -1, allowed.shape[-1]))
    view = dataclasses.replace(where, **picked, allowed=allowed, memo={})
    return content, (vector.expand(batch, at.shape[1], -1), view)
