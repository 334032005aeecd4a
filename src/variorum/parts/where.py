"""Where the queries and keys of one attention call stand: positions, order, segments, documents.

Every hook of a position part is a pure function of this. Order decides what may be seen (-1: nothing there, a padded
or empty slot); positions decide how far apart things are. The two differ only when a caller gives position ids.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Where:
    """All tensors are [B or 1, Q or K]; ``None`` where a model has no such thing.

    ``allowed`` [B or 1, Q, K] narrows what is seen beyond order (permutation masks). ``everywhere`` [B or 1, T] marks
    the tokens of a text that see all and are seen by all, whatever the window. ``padded`` is False when every
    slot is known to hold a token, which lets fused kernels drop the mask. ``lengths`` says that the one row is a stream
    of texts end to end (:mod:`variorum.attention.packed`). ``tables`` are those of a position part
    (:meth:`~variorum.parts.positions.LayerPositions.tables`) where a tile is handed them. ``memo`` keeps what all
    layers of one forward share.
    """

    q_positions: Tensor
    k_positions: Tensor
    q_order: Tensor
    k_order: Tensor
    q_segments: Tensor | None = None
    k_segments: Tensor | None = None
    q_documents: Tensor | None = None
    k_documents: Tensor | None = None
    allowed: Tensor | None = None
    everywhere: Tensor | None = None
    padded: bool = True
    lengths: tuple[int, ...] | None = None
    tables: tuple[Tensor, ...] | None = None
    memo: dict[object, Any] = dataclasses.field(default_factory=dict)

    def remember(self, key: object, make: Callable[[], T]) -> T:
        """``make()``, computed once per forward for all layers."""
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]

    def tile(self, rows: slice, columns: slice, tables: tuple[Tensor, ...]) -> Where:
        """Where some of the queries stand among some of the keys."""
        marks: dict[str, Any] = {}
        for side, part in (("q", rows), ("k", columns)):
            for name in ("positions", "order", "segments", "documents"):
                mark = getattr(self, f"{side}_{name}")
                marks[f"{side}_{name}"] = None if mark is None else mark[:, part]
        allowed = None if self.allowed is None else self.allowed[:, rows, columns]
        return Where(**marks, allowed=allowed, padded=self.padded, tables=tables)

    @property
    def distance(self) -> Tensor:
        """Key position minus query position, [B or 1, Q, K]."""
        return self.remember("distance", lambda: self.k_positions[:, None, :] - self.q_positions[:, :, None])


def order_from_mask(attention_mask: Tensor | None, length: int, device: torch.device) -> Tensor:
    """Order of each slot among the real ones, [B or 1, T]; -1 where the mask is 0."""
    if attention_mask is None:
        return torch.arange(length, device=device)[None]
    real = attention_mask.to(torch.bool)
    return torch.where(real, real.long().cumsum(-1) - 1, -1)
