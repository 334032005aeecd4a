"""Longformer's attention: most tokens see a window, global tokens see all and are seen by all.

Global tokens ask through their own projections of query, key and value; a local token sees a global one through the
usual projections, as in the released code. The eager backend computes the definition over all pairs; the others cut
the windows into tiles and never make a T × T tensor.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

from variorum.attention.attention import Attention
from variorum.attention.bands import Tiles, cut
from variorum.attention.cache import Slots
from variorum.attention.masks import Mask
from variorum.attention.packed import each
from variorum.parts.positions import LayerPositions
from variorum.parts.where import Where
from variorum.spec import attention as spec

EVERYTHING = Mask(causal=False)
Projected = tuple[Tensor, Tensor, Tensor, Tensor]


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The global tokens of each row: their places [B, G], row after row ``rows`` and number ``numbers`` of each one
    that exists, and where they stand as queries over the whole text."""

    at: Tensor
    rows: Tensor
    numbers: Tensor
    where: Where

    def take(self, x: Tensor) -> Tensor:
        """[B, H, T, d] -> [B, H, G, d]"""
        return x.gather(2, self.at[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))

    def put(self, x: Tensor, values: Tensor) -> Tensor:
        """``x`` [B, H, T, d] with ``values`` [B, H, G, d] in their places."""
        places = self.rows, self.at[self.rows, self.numbers]
        return x.transpose(1, 2).index_put(places, values.transpose(1, 2)[self.rows, self.numbers]).transpose(1, 2)


class GlobalLocalAttention(Attention):
    """Self-attention of a bidirectional stack whose ``where.everywhere`` marks global tokens."""

    def __init__(self, attention: spec.GlobalLocalAttention, width: int, positions: LayerPositions) -> None:
        super().__init__(attention, width, positions)
        inner, shared = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
        self.query_global = nn.Linear(width, inner, bias="query" in attention.bias)
        self.key_global = nn.Linear(width, shared, bias="key" in attention.bias)
        self.value_global = nn.Linear(width, shared, bias="value" in attention.bias)

    def forward(
        self, q_input: Tensor, kv_input: Tensor, new: Where, where: Where, mask: Mask, *,
        slots: Slots | None = None, backend: str = "auto", maps: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """q_input = kv_input [B, T, D] -> output [B, T, D], maps [B, H, T, T] or ``None``."""
        if where.lengths is not None:
            return each(where, lambda near, x: self(x, x, near, near, mask, backend=backend)[0], q_input), None
        local = self._projected((self.query, self.key, self.value), q_input, kv_input, new)
        if maps or backend == "eager" or not mask.window or where.allowed is not None:
            mixed, weights = self._over_all_pairs(local, kv_input, where, mask, backend, maps)
            return self._out(mixed), weights
        return self._out(self._in_tiles(local, kv_input, where, mask, backend)), None

    def _projected(
        self, projections: tuple[nn.Linear, nn.Linear, nn.Linear], q_input: Tensor, kv_input: Tensor, where: Where
    ) -> Projected:
        """Queries, the same as the dot product sees them, keys and values, each [B, heads, tokens, d]."""
        query, key, value = projections
        q = self.query_norm(self._heads(query, q_input, self.spec.heads))
        k = self.key_norm(self._heads(key, kv_input, self.spec.kv_heads))
        turned, k = self.positions.rotate(q, k, where)
        return q, turned, k, self._heads(value, kv_input, self.spec.kv_heads)

    def _globally(self, q_input: Tensor, kv_input: Tensor, where: Where) -> Projected:
        return self._projected((self.query_global, self.key_global, self.value_global), q_input, kv_input, where)

    def _over_all_pairs(
        self, local: Projected, x: Tensor, where: Where, mask: Mask, backend: str, maps: bool
    ) -> tuple[Tensor, Tensor | None]:
        """The definition: every row both ways, and of each the one that it is."""
        everywhere = where.everywhere
        if everywhere is None or not where.remember("some global", lambda: bool(everywhere.any())):
            return self._mixed(*local, where, mask, backend, maps)
        near = where.remember(("near", mask), lambda: _near_or_global(where, mask, everywhere))
        mixed, weights = self._mixed(*local, near, EVERYTHING, backend, maps)
        far, far_weights = self._mixed(*self._globally(x, x, where), where, EVERYTHING, backend, maps)
        which = everywhere[:, None, :, None]
        if weights is not None and far_weights is not None:
            weights = torch.where(which, far_weights, weights)
        return torch.where(which, far, mixed), weights

    def _in_tiles(self, local: Projected, x: Tensor, where: Where, mask: Mask, backend: str) -> Tensor:
        q, turned, k, v = local
        tiles, near = cut(where, mask, len(x))
        chosen = where.remember("chosen", lambda: _chosen(where, len(x)))
        queries, keys, values = (tiles.queries(q), tiles.queries(turned)), tiles.keys(k), tiles.keys(v)
        if chosen is None:
            return tiles.joined(self._mixed(*queries, keys, values, near, mask, backend, False)[0])
        seen = where.remember(("seen", mask), lambda: _with_globals(tiles, near, mask, chosen, where))
        keys = torch.cat((tiles.every(chosen.take(k)), keys), 2)
        values = torch.cat((tiles.every(chosen.take(v)), values), 2)
        mixed = tiles.joined(self._mixed(*queries, keys, values, seen, EVERYTHING, backend, False)[0])
        asking = x.gather(1, chosen.at[:, :, None].expand(-1, -1, x.shape[2]))
        far, _ = self._mixed(*self._globally(asking, x, chosen.where), chosen.where, EVERYTHING, backend, False)
        return chosen.put(mixed, far)


def _near_or_global(where: Where, mask: Mask, everywhere: Tensor) -> Where:
    """Where a local token sees its window and every global token."""
    near = mask.visible(where)[:, 0] | everywhere[:, None, :]
    allowed = near if where.allowed is None else near & where.allowed
    return dataclasses.replace(where, allowed=allowed, memo={})


def _chosen(where: Where, batch: int) -> Chosen | None:
    """The global tokens, or ``None`` where no row has any."""
    if where.everywhere is None or not bool(where.everywhere.any()):
        return None
    marks = where.everywhere.expand(batch, -1)
    most = int(marks.sum(-1).max())
    at = marks.logical_not().long().argsort(dim=-1, stable=True)[:, :most]
    exists = marks.gather(1, at)
    placed = {f"k_{name}": getattr(where, f"k_{name}") for name in ("order", "positions", "segments", "documents")}
    for name, empty in (("order", -1), ("positions", 0), ("segments", 0), ("documents", -1)):
        own = getattr(where, f"q_{name}")
        if own is not None:
            placed[f"q_{name}"] = own.expand(batch, -1).gather(1, at).masked_fill(~exists, empty)
    rows, numbers = exists.nonzero(as_tuple=True)
    return Chosen(at, rows, numbers, Where(**placed, padded=True))


def _with_globals(tiles: Tiles, near: Where, mask: Mask, chosen: Chosen, where: Where) -> Where:
    """Where each tile's keys stand when the row's global tokens come before them; in the window they are left out."""
    assert where.everywhere is not None
    twice = tiles.key_marks(where.everywhere.long(), 0).bool()
    window = mask.visible(near)[:, 0] & ~twice[:, None, :]
    first = window.new_ones(len(window), window.shape[1], chosen.at.shape[1])
    placed: dict[str, Any] = {}
    for name in ("order", "positions", "segments", "documents"):
        ahead, keys = getattr(chosen.where, f"q_{name}"), getattr(near, f"k_{name}")
        if ahead is not None and keys is not None:
            placed[f"k_{name}"] = torch.cat((tiles.every(ahead), keys), 1)
    return dataclasses.replace(near, **placed, allowed=torch.cat((first, window), 2), memo={})
