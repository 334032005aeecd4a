"""How softmax(scores)·values is computed. ``eager`` is the oracle; others refuse what they do not support.

In every backend a query that sees nothing yields 0, with gradient 0.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor
from torch.nn import functional as F

from variorum.attention.dropped import Dropping, attend
from variorum.attention.masks import Mask
from variorum.attention.scores import Scores, score_type
from variorum.attention.tiled import tiled
from variorum.errors import UsageError
from variorum.parts.dropout import dropout, loops_pay
from variorum.parts.where import Where


class Backend(Protocol):
    """q [B, H, Q, d], k [B, KV, K, d], v [B, KV, K, e] -> output [B, H, Q, e], maps [B, H, Q, K] or ``None``."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, scores: Scores, mask: Mask, where: Where
    ) -> tuple[Tensor, Tensor | None]: ...


def eager(q: Tensor, k: Tensor, v: Tensor, scores: Scores, mask: Mask, where: Where) -> tuple[Tensor, Tensor | None]:
    """The definition, in the inputs' precision (softmax in float32 or better)."""
    repeats = q.shape[1] // k.shape[1]
    every_k, every_v = (k, v) if repeats == 1 else (x.repeat_interleave(repeats, dim=1) for x in (k, v))
    logits = scores.weighed(q @ every_k.transpose(-1, -2), q, k, where)
    seen = mask.visible(where)
    some = seen.any(-1, keepdim=True)
    logits = logits.masked_fill(~seen, float("-inf")).masked_fill(~some, 0.0)
    maps = logits.softmax(-1, dtype=score_type(logits.dtype)).masked_fill(~seen, 0.0).to(q.dtype)
    return dropout(maps, scores.dropout, scores.dropout > 0) @ every_v, maps


def sdpa(q: Tensor, k: Tensor, v: Tensor, scores: Scores, mask: Mask, where: Where) -> tuple[Tensor, Tensor | None]:
    """torch's fused attention. No softcap, no maps.

    Raises:
        UsageError: softcap is asked for.
    """
    if scores.softcap is not None:
        raise UsageError("the sdpa backend has no softcap", remedy="use backend='tiled' or 'eager'")
    grouped = q.shape[1] != k.shape[1]
    extra = scores.extra(q, k, where)
    if extra is None and mask.is_plain(where):
        causal = mask.causal and q.shape[2] > 1
        return _fused(q, k, v, None, scores, grouped, causal=causal), None
    seen = mask.visible(where)
    some = seen.any(-1, keepdim=True)
    open_rows = seen | ~some
    attn_mask = open_rows
    if extra is not None:
        attn_mask = extra.masked_fill(~open_rows, float("-inf"))
    out = _fused(q, k, v, attn_mask, scores, grouped)
    return (out.masked_fill(~some, 0.0) if where.padded or where.allowed is not None else out), None


def _fused(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, scores: Scores, grouped: bool, *, causal: bool = False
) -> Tensor:
    if scores.dropout > 0 and attn_mask is None and loops_pay(q):
        return attend(q, k, v, Dropping(scale=scores.scale, rate=scores.dropout, causal=causal))
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask, dropout_p=scores.dropout, is_causal=causal, scale=scores.scale, enable_gqa=grouped
    )


BACKENDS: dict[str, Backend] = {"eager": eager, "sdpa": sdpa, "tiled": tiled}
# Pairs of a query and a key from which on tiles win: over eager in time, over sdpa in memory, whose biases it must be
# handed whole.
CAPPED, BIASED = 1024 * 1024, 4096 * 4096


def choose(name: str, scores: Scores, *, maps: bool, pairs: int = 0) -> Backend:
    """The backend called ``name``; "auto" is sdpa, or eager where that cannot, or tiled for many ``pairs`` of a query
    and a key whose scores sdpa cannot make itself.

    Raises:
        UsageError: no such backend, or it cannot return attention maps.
    """
    if name == "auto":
        if maps:
            return eager
        if scores.softcap is not None:
            return tiled if pairs >= CAPPED else eager
        return tiled if scores.positions.weighs and pairs >= BIASED else sdpa
    if name not in BACKENDS:
        raise UsageError(f"no attention backend is called {name!r}", remedy=f"one of auto, {', '.join(BACKENDS)}")
    if maps and name != "eager":
        raise UsageError(f"the {name} backend keeps no attention maps", remedy="use backend='eager' or 'auto'")
    return BACKENDS[name]
