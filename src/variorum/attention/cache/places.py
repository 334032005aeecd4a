"""In which slots the tokens of each row lie, decided once a call for every layer that lies alike.

Row r keeps its i-th token in slot i, or, in a ring of C slots, in slot i mod C. Rows need not be equally long and hold
no padding: what a row has read is a number, and the order of its slots follows from it.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from variorum.errors import UsageError
from variorum.parts.where import Where
from variorum.spec.cache import Arrangement


class Span(NamedTuple):
    """New entries go to neighbouring slots, the same in all ``rows``."""

    rows: slice
    start: int
    stop: int


class Scatter(NamedTuple):
    """Entry ``tokens[i]`` of new row ``batch[i]`` goes to ``slots[i]`` of ``rows[i]``; others are not kept."""

    rows: Tensor
    slots: Tensor
    batch: Tensor
    tokens: Tensor


class Read(NamedTuple):
    """Which slots are looked at."""

    rows: slice | Tensor
    start: int
    stop: int


@dataclasses.dataclass(frozen=True)
class Step:
    """What one call does to the slots of a layer.

    ``where`` is where the new queries stand among the keys they get: those of ``read``, looked at when the new ones
    have been written; or, where ``joined``, those of ``read`` (``None``: none) from before, and then the new ones.
    ``copies`` are slots whose entries go to others first; ``rows`` and ``slots`` are what has to be there.
    """

    where: Where
    rows: int
    slots: int
    put: Span | Scatter
    read: Read | None
    joined: bool = False
    copies: tuple[Tensor, Tensor] | None = None

    def targets(self) -> Tensor:
        """The place of each new entry among the slots that are read, [b or 1, n]; -1 for one that is not kept."""
        first = 0 if self.read is None else self.read.start
        if isinstance(self.put, Span):
            return torch.arange(self.put.start - first, self.put.stop - first)[None]
        at = torch.full((int(self.put.batch.max()) + 1, self.where.q_order.shape[-1]), -1)
        at[self.put.batch, self.put.tokens] = self.put.slots - first
        return at


@dataclasses.dataclass(frozen=True)
class Piece:
    """New tokens: ``new`` says where they stand among themselves, [b, n] or a stream of texts.

    They go to ``rows`` of the cache's ``count``, which hold ``old`` tokens each and get ``added`` more. ``positions``
    [b, T] are those of each row's tokens, in order, where they are not their order.
    """

    new: Where
    rows: tuple[int, ...]
    count: int
    old: tuple[int, ...]
    added: tuple[int, ...]
    positions: Tensor | None = None

    @property
    def ends(self) -> tuple[int, ...]:
        """Tokens of each row when these have been added."""
        return tuple(a + b for a, b in zip(self.old, self.added, strict=True))

    @property
    def streams(self) -> bool:
        """Whether several texts come end to end."""
        return self.new.lengths is not None and len(self.rows) > 1

    @property
    def even(self) -> bool:
        """Whether all rows hold equally much and get equally much, without padding."""
        padded = self.new.padded and not self._real
        return not (padded or self.streams) and min(self.old) == max(self.old)

    @property
    def _real(self) -> bool:
        width = self.new.k_order.shape[-1]
        return all(added == width for added in self.added)

    @property
    def run(self) -> slice | Tensor:
        """The rows, as a slice where they are neighbours."""
        first, last = self.rows[0], self.rows[-1]
        if self.rows == tuple(range(first, last + 1)):
            return slice(first, last + 1)
        return torch.tensor(self.rows, device=self.device)

    @property
    def device(self) -> torch.device:
        """Where the tokens are."""
        return self.new.k_order.device

    def among(self, k_order: Tensor, *, padded: bool) -> Where:
        """Where the new queries stand among keys of these orders, [b or 1, K]."""
        k_positions = k_order
        if self.positions is not None:
            k_positions = self.positions.gather(-1, k_order.clamp(min=0).expand(len(self.positions), -1))
        return dataclasses.replace(
            self.new, k_order=k_order, k_positions=k_positions, lengths=None, memo={},
            padded=padded or self.new.q_order is not self.new.k_order,
        )  # fmt: skip

    def tokens(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of each new token that is one: its number in the piece's rows, its order, its new row, its place there."""
        order = self.new.k_order
        if self.new.lengths is not None:
            counts = torch.tensor(self.added, device=self.device)
            number = torch.arange(len(self.rows), device=self.device).repeat_interleave(counts)
            return number, order[0], torch.zeros_like(number), torch.arange(len(number), device=self.device)
        order = order.expand(len(self.rows), -1)
        batch, places = (order >= 0).nonzero(as_tuple=True)
        return batch, order[batch, places], batch, places


class Places(Protocol):
    """How rows lie. ``now`` is the step of the call that is running, ``limit`` how many slots there are at most."""

    now: Step
    limit: int | None

    def begin(self, piece: Piece) -> Where:
        """Make room for new tokens; where their queries stand then."""

    def select(self, rows: list[int]) -> bool:
        """Keep these rows. True where each layer has to bring its entries into this order."""

    def drop(self, lengths: list[int], counts: list[int]) -> None:
        """Forget the last ``counts`` tokens of rows of ``lengths``.

        Raises:
            UsageError: what they pushed out is needed again, and gone.
        """

    def slots(self, row: int, start: int, stop: int) -> tuple[int, Tensor]:
        """Where a row's tokens from ``start`` to ``stop`` lie: a row of the tensors, and their slots."""

    def used(self, lengths: list[int]) -> int:
        """Slots from the first on that may hold something."""


class RowPlaces:
    """Each row has slots of its own."""

    now: Step

    def __init__(self, arrangement: Arrangement) -> None:
        self.arrangement, self.ring, self.limit = arrangement, arrangement.ring, arrangement.ring
        self._steps = torch.arange(0)

    def begin(self, piece: Piece) -> Where:
        self.now = self._evenly(piece) if piece.even else self._apart(piece)
        return self.now.where

    def select(self, rows: list[int]) -> bool:
        return True

    def drop(self, lengths: list[int], counts: list[int]) -> None:
        if self.ring is None:
            return
        for length, count in zip(lengths, counts, strict=True):
            if length > self.ring and count > self.arrangement.undo:
                raise UsageError(
                    f"{count} tokens are to be forgotten, and a ring has overwritten what they pushed out",
                    remedy=f"plan for it: undo={count}",
                )

    def slots(self, row: int, start: int, stop: int) -> tuple[int, Tensor]:
        return row, torch.arange(start, stop) % (self.ring or stop)

    def used(self, lengths: list[int]) -> int:
        return self.arrangement.slots(max(lengths))

    def _evenly(self, piece: Piece) -> Step:
        """The plain case, and that of every step of one text: slices, nothing copied."""
        old, added, ring, rows = piece.old[0], piece.added[0], self.ring, piece.run
        end = old + added
        if isinstance(rows, Tensor) or (ring is not None and end > ring and added > 1):
            return self._apart(piece)
        if ring is None or end <= ring:
            where = piece.among(self._count(end, piece.device), padded=False)
            return Step(where, piece.count, end, Span(rows, old, end), Read(rows, 0, end))
        where = piece.among(self._order([end], ring, piece.device), padded=False)
        return Step(where, piece.count, ring, Span(rows, old % ring, old % ring + 1), Read(rows, 0, ring))

    def _apart(self, piece: Piece) -> Step:
        """Rows of their own lengths, padding among the new tokens, or more of them than a ring takes at once."""
        number, order, batch, tokens = piece.tokens()
        ends = torch.tensor(piece.ends, device=piece.device)
        slots, ring = max(1, *piece.ends), self.ring
        wraps = ring is not None and slots > ring
        if ring is not None and wraps:
            kept = order >= ends[number] - ring
            number, order, batch, tokens = number[kept], order[kept] % ring, batch[kept], tokens[kept]
            slots = ring
        put = Scatter(torch.tensor(piece.rows, device=piece.device)[number], order, batch, tokens)
        if piece.streams:
            return Step(piece.new, piece.count, slots, put, None, joined=True)
        if wraps and max(piece.added) > 1:
            return self._joined(piece, put, slots)
        k_order = self._order(piece.ends, slots, piece.device)
        where = piece.among(k_order, padded=not piece.even)
        return Step(where, piece.count, slots, put, Read(piece.run, 0, slots))

    def _joined(self, piece: Piece, put: Scatter, slots: int) -> Step:
        """More new tokens than one on a full ring: the first of them see what the last of them overwrite."""
        held = min(max(piece.old), slots)
        new = piece.new.k_order
        if held:
            before = self._order(piece.old, slots, piece.device)[:, :held]
            rows = max(len(before), len(new))
            new = torch.cat((before.expand(rows, -1), new.expand(rows, -1)), 1)
        where = piece.among(new, padded=not piece.even)
        read = Read(piece.run, 0, held) if held else None
        return Step(where, piece.count, slots, put, read, joined=True)

    def _count(self, slots: int, device: torch.device) -> Tensor:
        """0 to ``slots``, [1, slots]."""
        if len(self._steps) < slots or self._steps.device != device:
            self._steps = torch.arange(max(2 * slots, 64), device=device)
        return self._steps[None, :slots]

    def _order(self, lengths: tuple[int, ...] | list[int], slots: int, device: torch.device) -> Tensor:
        """The order of the token in each slot of rows of these lengths, -1 in an empty one, [b or 1, slots]."""
        even = min(lengths) == max(lengths)
        last = torch.tensor(lengths[:1] if even else lengths, device=device)[:, None] - 1
        return (last - (last - self._count(slots, device)) % (self.ring or slots)).clamp(min=-1)
