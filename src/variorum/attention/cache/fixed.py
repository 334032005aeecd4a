"""Slots of a fixed number, read as a whole: for steps whose shapes do not follow the text."""

from __future__ import annotations

import dataclasses
import sys

import torch
from torch import Tensor

from variorum.attention.cache.places import Read, RowPlaces, Scatter, Step
from variorum.attention.cache.slots import Slots
from variorum.attention.cache.state import Cache
from variorum.parts.where import Where
from variorum.spec.architecture import Stack


class Fixed(Cache):
    """The slots of ``full``, as a step sees them whose next token of each row has the order ``at``, [B, 1].

    All slots are read every time; the order of what lies in them is computed from ``at``, and empty ones have none.
    """

    def __init__(self, full: Cache, at: Tensor) -> None:
        super().__init__(full.plan)
        self.at = at
        self.encoded, self.encoded_order, self.cross = full.encoded, full.encoded_order, full.cross
        self.layers = [_twin(slots) for slots in full.layers]

    @property
    def room(self) -> int:
        """Tokens that a row can have before there must be more slots; rings are never too small once all are there."""
        have = ((slots.raw[0].shape[2], slots.places.limit) for slots in self.layers)
        return min((slots for slots, limit in have if slots != limit), default=sys.maxsize)

    def bind(self, stack: Stack, name: str, device: torch.device, texts: int) -> None:
        """There is nothing to make: ``full`` has it."""

    @property
    def length(self) -> int:
        """Something: rows have begun."""
        return 1

    @property
    def next_order(self) -> Tensor:
        """The order of the next token of each row, [B, 1]."""
        return self.at

    def extend(self, new: Where, batch: int) -> list[Where]:
        """As :meth:`Cache.extend`, with nothing decided by what the rows hold."""
        steps: dict[tuple[int, int], Step] = {}
        for slots in self.layers:
            have = slots.raw[0].shape[2]
            ring = slots.places.limit or have
            if (have, ring) not in steps:
                steps[have, ring] = self._step(new, have, ring)
            slots.places.now = steps[have, ring]
        return [slots.places.now.where for slots in self.layers]

    def _step(self, new: Where, have: int, ring: int) -> Step:
        """The newest token of a row lies in slot ``at`` mod ``ring``, the one before it in the slot before, and so on
        around the ring; orders below 0 are slots that nothing was written to, or that were forgotten."""
        slots, rows = torch.arange(have, device=self.at.device), torch.arange(len(self.at), device=self.at.device)
        order = (self.at - (self.at - slots) % ring).clamp(min=-1)
        where = dataclasses.replace(new, k_order=order, k_positions=order, memo={}, padded=True)
        put = Scatter(rows, self.at[:, 0] % ring, rows, torch.zeros_like(rows))
        return Step(where, len(rows), have, put, Read(slice(0, len(rows)), 0, have))


def _twin(slots: Slots) -> Slots:
    """The same tensors under places of their own."""
    assert isinstance(slots.places, RowPlaces)
    twin = Slots(RowPlaces(slots.places.arrangement), slots.form)
    twin.raw = slots.raw
    return twin
