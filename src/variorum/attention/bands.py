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
    """How T queries of each of B rows are cut into N tiles of C queries, each with the K keys around them.

    ``before`` so many more keys stand before those of the queries. ``order`` and ``key_order`` list queries and keys as
    they follow one another in a text, where they do not stand so.
    """

    batch: int
    length: int
    size: int
    left: int
    right: int
    before: int = 0
    order: Tensor | None = None
    key_order: Tensor | None = None

    @property
    def count(self) -> int:
        """Tiles of one row."""
        return -(-self.length // self.size)

    @property
    def _fill(self) -> int:
        return -self.length % self.size

    def queries(self, x: Tensor) -> Tensor:
        """[B, H, T, d] -> [B·N, H, C, d]"""
        x = F.pad(x if self.order is None else _along(x, self.order), (0, 0, 0, self._fill))
        return x.unflatten(2, (self.count, self.size)).transpose(1, 2).flatten(0, 1)

    def keys(self, x: Tensor) -> Tensor:
        """[B, H, before + T, d] -> [B·N, H, K, d]"""
        x = x if self.key_order is None else _along(x, self.key_order)
        x = F.pad(x[:, :, self._unseen :], (0, 0, self._blank, self.right + self._fill))
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
        marks = _listed(marks, self.order)
        cut = F.pad(marks, (0, self._fill), value=empty).unflatten(-1, (self.count, self.size))
        return cut.expand(self.batch, -1, -1).flatten(0, 1)

    def key_marks(self, marks: Tensor, empty: int) -> Tensor:
        """The same for each key [B·N, K], ``empty`` beyond both ends."""
        seen = _listed(marks, self.key_order)[:, self._unseen :]
        padded = F.pad(seen, (self._blank, self.right + self._fill), value=empty)
        cut = padded.unfold(-1, self.left + self.size + self.right, self.size)
        return cut.expand(self.batch, -1, -1).flatten(0, 1)

    @property
    def _unseen(self) -> int:
        """Keys before those that the first tile sees."""
        return max(self.before - self.left, 0)

    @property
    def _blank(self) -> int:
        """Places of the first tile that no key fills."""
        return max(self.left - self.before, 0)


def pays(mask: Mask, where: Where) -> bool:
    """Whether the window cuts enough off a text, or off what comes after the part of it that a cache holds."""
    if not mask.window or where.allowed is not None:
        return False
    queries, keys = where.q_order.shape[-1], where.k_order.shape[-1]
    left, right = _reach(mask, keys)
    return (queries == keys or mask.causal) and queries >= PAYS * (left + _size(left, right) + right)


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
    length = where.q_order.shape[-1]
    before = where.k_order.shape[-1] - length
    left, right = _reach(mask, length + before)
    size = _size(left, right)
    order, key_order, follows = where.remember("in a row", lambda: _in_a_row(where))
    if not follows or not pays(mask, where):  # one tile: few more keys than the window shows, and none of them twice
        left, size, right = before, length, 0
    tiles = Tiles(batch, length, size, left, right, before, order, key_order)
    marks: dict[str, Any] = {}
    for name, empty in (("order", -1), ("positions", 0), ("segments", 0), ("documents", -1)):
        q, k = getattr(where, f"q_{name}"), getattr(where, f"k_{name}")
        if q is not None and k is not None:
            marks[f"q_{name}"], marks[f"k_{name}"] = tiles.query_marks(q, empty), tiles.key_marks(k, empty)
    return tiles, Where(**marks, padded=True)


def _in_a_row(where: Where) -> tuple[Tensor | None, Tensor | None, bool]:
    """Queries and keys as they follow one another (``None``: as they stand), and whether the queries are the last keys
    of one text.

    Keys of a cache may lie in a ring, some of its places may be empty, and several texts may share it.
    """
    if where.q_order.shape == where.k_order.shape:
        order = _compact(where)
        return order, order, True
    order, key_order = _ascending(where.q_order), _ascending(where.k_order)
    keys, asked = _listed(where.k_order, key_order), _listed(where.q_order, order)
    one_text = (keys.diff() > 0) | (keys[:, :-1] < 0)
    last = (asked == keys[:, -asked.shape[-1] :]) | (asked < 0)
    return order, key_order, bool(one_text.all()) and bool(last.all())


def _ascending(order: Tensor) -> Tensor | None:
    return None if bool((order.diff() >= 0).all()) else order.argsort(dim=-1, stable=True)


def _compact(where: Where) -> Tensor | None:
    """Real tokens of each row first, [B, T]; ``None`` where neighbours in order are neighbours already."""
    if not where.padded:
        return None
    real = where.k_order >= 0
    shift = where.k_order - torch.arange(real.shape[-1], device=real.device)
    low, high = shift.masked_fill(~real, real.shape[-1]).amin(-1), shift.masked_fill(~real, -real.shape[-1]).amax(-1)
    return None if bool((low >= high).all()) else real.logical_not().long().argsort(dim=-1, stable=True)


def _listed(marks: Tensor, order: Tensor | None) -> Tensor:
    return marks if order is None else marks.expand(len(order), -1).gather(1, order)


def _along(x: Tensor, at: Tensor) -> Tensor:
    rows = max(len(x), len(at))
    return x.expand(rows, -1, -1, -1).gather(2, at[:, None, :, None].expand(rows, x.shape[1], -1, x.shape[3]))
