"""How softmax(scores)·values is computed. ``eager`` is the oracle; others refuse what they do not support.

In every backend a query that sees nothing yields 0, with gradient 0.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from variorum.attention.masks import Mask
from variorum.errors import UsageError
from variorum.parts.where import Where


@dataclasses.dataclass(frozen=True)
class Scores:
    """Everything about the scores but q·k: ``added`` goes in before the scale, ``bias`` after. [B or 1, H, Q, K]"""

    scale: float
    added: Tensor | None = None
    bias: Tensor | None = None
    softcap: float | None = None
    dropout: float = 0.0


class Backend(Protocol):
    """q [B, H, Q, d], k [B, KV, K, d], v [B, KV, K, e] -> output [B, H, Q, e], maps [B, H, Q, K] or ``None``."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, scores: Scores, mask: Mask, where: Where
    ) -> tuple[Tensor, Tensor | None]: ...


def eager(q: Tensor, k: Tensor, v: Tensor, scores: Scores, mask: Mask, where: Where) -> tuple[Tensor, Tensor | None]:
    """The definition, in the inputs' precision (softmax in float32 or better)."""
    repeats = q.shape[1] // k.shape[1]
    if repeats > 1:
        k, v = k.repeat_interleave(repeats, dim=1), v.repeat_interleave(repeats, dim=1)
    logits = q @ k.transpose(-1, -2)
    if scores.added is not None:
        logits = logits + scores.added
    logits = logits * scores.scale
    if scores.bias is not None:
        logits = logits + scores.bias
    if scores.softcap is not None:
        logits = scores.softcap * (logits / scores.softcap).tanh()
    seen = mask.visible(where)
    some = seen.any(-1, keepdim=True)
    logits = logits.masked_fill(~seen, float("-inf")).masked_fill(~some, 0.0)
    wide = torch.promote_types(logits.dtype, torch.float32)
    maps = logits.softmax(-1, dtype=wide).masked_fill(~seen, 0.0).to(q.dtype)
    return F.dropout(maps, scores.dropout, scores.dropout > 0) @ v, maps


def sdpa(q: Tensor, k: Tensor, v: Tensor, scores: Scores, mask: Mask, where: Where) -> tuple[Tensor, Tensor | None]:
    """torch's fused attention. No softcap, no maps.

    Raises:
        UsageError: softcap is asked for.
    """
    if scores.softcap is not None:
        raise UsageError("the sdpa backend has no softcap", remedy="use backend='eager'")
    grouped = q.shape[1] != k.shape[1]
    if scores.added is None and scores.bias is None and mask.is_plain(where):
        causal = mask.causal and q.shape[2] > 1
        return _fused(q, k, v, None, scores, grouped, causal=causal), None
    seen = mask.visible(where)
    some = seen.any(-1, keepdim=True)
    open_rows = seen | ~some
    attn_mask = open_rows
    extra = scores.bias
    if scores.added is not None:
        extra = scores.added * scores.scale + (0 if extra is None else extra)
    if extra is not None:
        attn_mask = extra.masked_fill(~open_rows, float("-inf"))
    out = _fused(q, k, v, attn_mask, scores, grouped)
    return (out.masked_fill(~some, 0.0) if where.padded or where.allowed is not None else out), None


def _fused(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, scores: Scores, grouped: bool, *, causal: bool = False
) -> Tensor:
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask, dropout_p=scores.dropout, is_causal=causal, scale=scores.scale, enable_gqa=grouped
    )


BACKENDS: dict[str, Backend] = {"eager": eager, "sdpa": sdpa}


def choose(name: str, scores: Scores, *, maps: bool) -> Backend:
    """The backend called ``name``; "auto" is sdpa where it can, eager where it must.

    Raises:
        UsageError: no such backend, or it cannot return attention maps.
    """
    if name == "auto":
        return eager if maps or scores.softcap is not None else sdpa
    if name not in BACKENDS:
        raise UsageError(f"no attention backend is called {name!r}", remedy=f"one of auto, {', '.join(BACKENDS)}")
    if maps and name != "eager":
        raise UsageError(f"the {name} backend keeps no attention maps", remedy="use backend='eager' or 'auto'")
    return BACKENDS[name]
