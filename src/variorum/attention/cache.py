"""What a decoder keeps between calls. Layers keep keys and values; the stack keeps where they stand."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from variorum.parts.where import Where


@dataclasses.dataclass(frozen=True)
class CachePlan:
    """What a writer keeps between calls. ``chunk``: a prompt is read so many tokens at a time (``None``: at once)."""

    chunk: int | None = None


PLAN = CachePlan()


class Slots:
    """A growing pair of tensors [B, heads, T, channels] for one attention, written in place.

    Capacity doubles, so a token costs amortised constant copying.
    """

    def __init__(self) -> None:
        self._held: tuple[Tensor, Tensor] | None = None
        self.length = 0

    def append(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Add new entries; everything held so far comes back."""
        end = self.length + a.shape[2]
        if self._held is None or end > self._held[0].shape[2] or torch.is_grad_enabled():
            self._held = self._grown(a, max(end, 2 * self.length), 0), self._grown(b, max(end, 2 * self.length), 1)
        for held, new in zip(self._held, (a, b), strict=True):
            held[:, :, self.length : end] = new
        self.length = end
        return self._held[0][:, :, :end], self._held[1][:, :, :end]

    def _grown(self, like: Tensor, capacity: int, which: int) -> Tensor:
        fresh = like.new_zeros(like.shape[0], like.shape[1], capacity, like.shape[3])
        if self._held is not None:
            fresh[:, :, : self.length] = self._held[which][:, :, : self.length]
        return fresh

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order."""
        if self._held is not None:
            self._held = self._held[0][rows], self._held[1][rows]

    @property
    def held(self) -> tuple[Tensor, Tensor] | None:
        """What is held, or ``None`` before the first call."""
        return None if self._held is None else (self._held[0][:, :, : self.length], self._held[1][:, :, : self.length])


@dataclasses.dataclass
class Cache:
    """The state of one decoding batch: per-layer slots, and positions and order of all keys ([B or 1, T], -1 = empty).

    ``encoded`` and ``encoded_order`` are an encoder's output, kept for cross-attention. ``vectors`` [B, T, D] are what
    the stack was given so far, kept only where it may have to start over.
    """

    depth: int
    layers: list[Slots] = dataclasses.field(default_factory=list)
    cross: list[Slots] = dataclasses.field(default_factory=list)
    positions: Tensor | None = None
    order: Tensor | None = None
    padded: bool = False
    encoded: Tensor | None = None
    encoded_order: Tensor | None = None
    vectors: Tensor | None = None

    def __post_init__(self) -> None:
        self.layers = [Slots() for _ in range(self.depth)]
        self.cross = [Slots() for _ in range(self.depth)]

    @property
    def length(self) -> int:
        """Slots in use, padding included."""
        return 0 if self.order is None else self.order.shape[-1]

    @property
    def next_order(self) -> Tensor | int:
        """The order of the next token of each row, [B or 1, 1]."""
        return 0 if self.order is None else self.order.amax(-1, keepdim=True) + 1

    def again(self, vectors: Tensor, new: Where, settled: int) -> tuple[Tensor, Where]:
        """The new tokens as they are; once the text has more than ``settled``, all tokens, the cache left empty."""
        self.vectors = vectors if self.vectors is None else torch.cat((self.vectors, vectors), 1)
        order, positions = new.k_order, new.k_positions
        if self.order is not None and self.positions is not None:
            order, positions = _joined(self.order, order), _joined(self.positions, positions)
        if int(positions.max()) < settled:
            return vectors, new
        self.order = self.positions = None
        self.layers = [Slots() for _ in range(self.depth)]
        padded = self.padded or new.padded
        return self.vectors, Where(positions, positions, order, order, padded=padded)

    def extend(self, new: Where) -> Where:
        """Where the new queries stand among all keys so far; remembers the new ones."""
        if self.order is None or self.positions is None:
            self.order, self.positions = new.k_order, new.k_positions
        else:
            self.order = _joined(self.order, new.k_order)
            self.positions = _joined(self.positions, new.k_positions)
        self.padded = self.padded or new.padded
        return dataclasses.replace(new, k_order=self.order, k_positions=self.positions, padded=self.padded, memo={})

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; one row that stands for all stays."""
        for slots in (*self.layers, *self.cross):
            slots.select(rows)
        for name in ("positions", "order", "encoded", "encoded_order", "vectors"):
            value = getattr(self, name)
            if value is not None and (len(value) > 1 or value.dim() == 3):
                setattr(self, name, value[rows])

    def drop(self, counts: Tensor) -> None:
        """Forget the last ``counts`` [B] tokens of each row: their slots stay, and hold nothing."""
        assert self.order is not None and self.positions is not None
        last = self.order.amax(-1, keepdim=True) - counts[:, None]
        forgotten = self.order > last
        self.order = torch.where(forgotten, -1, self.order)
        self.positions = torch.where(forgotten, -1, self.positions)
        self.padded = True


def _joined(old: Tensor, new: Tensor) -> Tensor:
    batch = max(old.shape[0], new.shape[0])
    return torch.cat((old.expand(batch, -1), new.expand(batch, -1)), -1)
