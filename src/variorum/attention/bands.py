"""Windowed attention in tiles: a run of queries against the few keys that their window reaches, never all against all.

Tiles become rows of the batch, so every backend and every position hook works on them unchanged. Time and memory grow
with T times the window, whatever the length and the padding; nothing is padded where a caller could see it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from variorum.attention.masks import Mask
from variorum.parts.where import Where

LEAST, MOST = 64, 256  # queries of a tile: with few, keys are copied more often; with many, more is scored in vain
PAYS = 2  # a text this many times as long as the keys of one tile is worth the copies


@dataclasses.dataclass(frozen=True)
class Tiles:
    """How T tokens of each of B rows are cut into N tiles of C queries, each with the K keys around them.

    ``order`` [B, T] lists the real tokens of a row before its padding, where padding stands between them.
    """

    batch: int
    length: int
    size: int
    left: int
    right: int
    order: Tensor | None

    @property
    def count(self) -> int:
        """Tiles of one row."""
        return -(-self.length // self.size)

    @property
    def _fill(self) -> int:
        return -self.length % self.size

    def queries(self, x: Tensor) -> Tensor:
        """[B, H, T, d] -> [B·N, H, C, d]"""
        x = F.pad(self._ordered(x), (0, 0, 0, self._fill))
        return x.unflatten(2, (self.count, self.size)).transpose(1, 2).flatten(0, 1)

    def keys(self, x: Tensor) -> Tensor:
        """[B, H, T, d] -> [B·N, H, K, d]"""
        x = F.pad(self._ordered(x), (0, 0, self.left, self.right + self._fill))
        return x.unfold(2, self.left + self.size + self.right, self.size).permute(0, 2, 1, 4, 3).flatten(0, 1)

    def joined(self, x: Tensor) -> Tensor:
        """What was made of the queries, back in its place: [B·N, H, C, e] -> [B, H, T, e]"""
        x = x.unflatten(0, (self.batch, self.count)).transpose(1, 2).flatten(2, 3)[:, :, : self.length]
        return x if self.order is None else _along(x, self.order.argsort(-1))

    def every(self, x: Tensor) -> Tensor:
        """What all tiles of a row get alike: [B or 1, …] -> [B·N, …]"""
        return x.expand(self.batch, *x.shape[1:]).repeat_interleave(self.count, 0)

    def query_marks(self, marks: Tensor, empty: int) -> Tensor:
        """A number for each token [B or 1, T] -> the same for each query [B·N, C], ``empty`` beyond the end."""
        cut = F.pad(self._marks(marks), (0, self._fill), value=empty).unflatten(-1, (self.count, self.size))
        return cut.expand(self.batch, -1, -1).flatten(0, 1)

    def key_marks(self, marks: Tensor, empty: int) -> Tensor:
        """The same for each key [B·N, K], ``empty`` beyond both ends."""
        padded = F.pad(self._marks(marks), (self.left, self.right + self._fill), value=empty)
        cut = padded.unfold(-1, self.left + self.size + self.right, self.size)
        return cut.expand(self.batch, -1, -1).flatten(0, 1)

    def _marks(self, marks: Tensor) -> Tensor:
        return marks if self.order is None else marks.expand(len(self.order), -1).gather(1, self.order)

    def _ordered(self, x: Tensor) -> Tensor:
        return x if self.order is None else _along(x, self.order)


def pays(mask: Mask, where: Where) -> bool:
    """Whether the window cuts enough off a text that stands alone: no cache, memory or permutation before it."""
    if not mask.window or where.allowed is not None or where.q_order.shape != where.k_order.shape:
        return False
    length = where.k_order.shape[-1]
    left, right = _reach(mask, length)
    return length >= PAYS * (left + _size(left, right) + right)


def cut(where: Where, mask: Mask, batch: int) -> tuple[Tiles, Where]:
    """The tiles of a text under a window, and where they stand; made once for all layers with that window."""
    return where.remember(("tiles", mask, batch), lambda: _cut(where, mask, batch))


def _reach(mask: Mask, length: int) -> tuple[int, int]:
    """How many of ``length`` keys before and after itself a query sees at most."""
    assert mask.window
    left, right = (mask.window - 1, 0) if mask.causal else (mask.window // 2, mask.window // 2)
    return min(left, length), min(right, length)


def _size(left: int, right: int) -> int:
    return min(max(LEAST, left, right), MOST)


def _cut(where: Where, mask: Mask, batch: int) -> tuple[Tiles, Where]:
    length = where.k_order.shape[-1]
    left, right = _reach(mask, length)
    size = _size(left, right)
    if not pays(mask, where):  # one tile: few more keys than the window shows, and none of them twice
        left, size, right = 0, length, 0
    tiles = Tiles(batch, length, size, left, right, where.remember("compact", lambda: _compact(where)))
    marks: dict[str, Any] = {}
    for name, empty in (("order", -1), ("positions", 0), ("segments", 0), ("documents", -1)):
        q, k = getattr(where, f"q_{name}"), getattr(where, f"k_{name}")
        if q is not None and k is not None:
            marks[f"q_{name}"], marks[f"k_{name}"] = tiles.query_marks(q, empty), tiles.key_marks(k, empty)
    return tiles, Where(**marks, padded=True)


def _compact(where: Where) -> Tensor | None:
    """Real tokens of each row first, [B, T]; ``None`` where neighbours in order are neighbours already."""
    if not where.padded:
        return None
    real = where.k_order >= 0
    shift = where.k_order - torch.arange(real.shape[-1], device=real.device)
    low, high = shift.masked_fill(~real, real.shape[-1]).amin(-1), shift.masked_fill(~real, -real.shape[-1]).amax(-1)
    return None if bool((low >= high).all()) else real.logical_not().long().argsort(dim=-1, stable=True)


def _along(x: Tensor, at: Tensor) -> Tensor:
    return x.gather(2, at[:, None, :, None].expand(len(x), x.shape[1], -1, x.shape[3]))
