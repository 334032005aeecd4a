"""A position part that adds what it is given, so that a backend can be tried with any scores at all."""

from __future__ import annotations

import torch
from torch import Tensor

from variorum.parts.positions import LayerPositions
from variorum.parts.where import Where


class Given(LayerPositions):
    """``before`` the scale and ``after`` it, both [B or 1, H, T, T], read at each query's and key's position."""

    weighs = True

    def __init__(self, before: Tensor | None = None, after: Tensor | None = None) -> None:
        super().__init__()
        self.before, self.after = before, after

    def tables(self, where: Where) -> tuple[Tensor, ...]:
        return tuple(one for one in (self.before, self.after) if one is not None)

    def scores(self, q: Tensor, k: Tensor, where: Where) -> Tensor | None:
        return None if self.before is None else _read(self._tables(where)[0], where)

    def bias(self, where: Where, dtype: torch.dtype) -> Tensor | None:
        return None if self.after is None else _read(self._tables(where)[-1], where)


def _read(table: Tensor, where: Where) -> Tensor:
    batch = max(len(table), len(where.q_positions))
    rows, columns = (at.clamp(min=0).expand(batch, -1) for at in (where.q_positions, where.k_positions))
    which = torch.arange(batch)[:, None, None, None]
    heads = torch.arange(table.shape[1])[None, :, None, None]
    return table.expand(batch, -1, -1, -1)[which, heads, rows[:, None, :, None], columns[:, None, None, :]]
