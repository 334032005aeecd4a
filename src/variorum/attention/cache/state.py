"""What one decoding batch keeps: the slots of every layer, and how much each row has read."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from variorum.attention.cache.numbers import FORMS, Entries
from variorum.attention.cache.pages import PagePlaces
from variorum.attention.cache.places import Piece, Places, RowPlaces
from variorum.attention.cache.slots import Once, Slots
from variorum.errors import UsageError
from variorum.parts.where import Where
from variorum.spec.architecture import Stack
from variorum.spec.cache import PLAN, Arrangement, CachePlan, arrangement, require


class Cache:
    """The state of one decoding batch over one stack, which it gets to know at the first call.

    Args:
        plan: what is kept.
        rows: texts that are written at once, where not all of them come with the first call.

    ``layers`` and ``cross`` are the slots of each layer; ``lengths`` counts the tokens of each row. ``encoded`` and
    ``encoded_order`` are an encoder's output, kept for cross-attention.
    """

    def __init__(self, plan: CachePlan = PLAN, *, rows: int = 0) -> None:
        self.plan, self.lengths = plan, [0] * rows
        self.layers: list[Slots] = []
        self.cross: list[Once] = []
        self.encoded: Tensor | None = None
        self.encoded_order: Tensor | None = None
        self._places: list[Places] = []
        self._which: list[int] = []  # of these places, each layer's
        self._active: tuple[int, ...] | None = None
        self._positions: Tensor | None = None  # of each row's tokens in order, where they are not their order
        self._texts: Slots | None = None  # what the stack was given so far, where it may have to start over
        self._stale = False
        self._device: torch.device | None = None

    def bind(self, stack: Stack, name: str, device: torch.device, texts: int) -> None:
        """Make slots for the layers of the stack called ``name``, unless they are there.

        Raises:
            UsageError: the stack cannot keep what is planned, or ``texts`` are not as many as the rows.
        """
        if self.lengths and len(self._rows) != texts:
            raise UsageError(f"{texts} texts for a cache of {len(self._rows)}", remedy="give each row its next tokens")
        if self._which:
            return
        require(stack, self.plan, name)
        kinds = [arrangement(stack, index, self.plan) for index in range(stack.depth)]
        distinct = list(dict.fromkeys(kinds))
        form = FORMS[self.plan.numbers]
        self._device, self._places = device, [_places(kind) for kind in distinct]
        self._which = [distinct.index(kind) for kind in kinds]
        for kind, which in zip(kinds, self._which, strict=True):
            room = kind.slots(self.plan.room) * (1 if kind.page is None else max(1, len(self.lengths)))
            self.layers.append(Slots(self._places[which], form, room))
        self.cross = [Once(form) for _ in kinds]
        if stack.settled is not None:
            self._texts = Slots(RowPlaces(Arrangement()), FORMS["model"], self.plan.room)

    @contextlib.contextmanager
    def only(self, rows: Sequence[int]) -> Iterator[None]:
        """Within, calls read tokens of these rows alone."""
        self._active = tuple(rows)
        try:
            yield
        finally:
            self._active = None

    @property
    def length(self) -> int:
        """Tokens of the longest row."""
        return max(self._held, default=0)

    @property
    def next_order(self) -> Tensor | int:
        """The order of the next token of each row, [B, 1], or of all."""
        held = self._held
        if len(set(held)) <= 1:
            return held[0] if held else 0
        return torch.tensor(held, device=self._device)[:, None]

    @property
    def next_position(self) -> Tensor | int:
        """The same of its position, where positions are counted otherwise."""
        if self._positions is None:
            return self.next_order
        held = torch.tensor(self._held, device=self._device)[:, None]
        beyond = torch.arange(self._positions.shape[1], device=self._device) >= held
        return self._positions[list(self._rows)].masked_fill(beyond, -1).amax(-1, keepdim=True) + 1

    @property
    def bytes(self) -> int:
        """What the tensors take that later tokens attend to."""
        texts = 0 if self._texts is None else self._texts.bytes
        return texts + sum(slots.bytes for slots in self.layers) + sum(once.bytes for once in self.cross)

    def extend(self, new: Where, batch: int) -> list[Where]:
        """Take in new tokens of ``batch`` rows; for each layer, where their queries stand among all its keys."""
        piece = self._piece(new, batch)
        views = [places.begin(piece) for places in self._places]
        for row, end in zip(piece.rows, piece.ends, strict=True):
            self.lengths[row] = end
        return [views[which] for which in self._which]

    def again(self, vectors: Tensor, new: Where, settled: int) -> tuple[Tensor, Where]:
        """The new tokens as they are; once a text has more than ``settled``, all tokens, and the slots are empty.

        All tokens of a row come in order, so that a token's order is its place.
        """
        assert self._texts is not None
        piece = self._piece(new, len(vectors))
        every = self._texts.places.begin(piece)
        (texts,) = self._texts.append(vectors[:, None])
        beyond = int(every.k_positions.max()) >= settled
        if not beyond and not self._stale:
            return vectors, new
        self._stale = beyond  # what is made now is for this length; after a drop it would be another's
        self.lengths = [0] * len(self.lengths)
        order, positions = every.k_order, every.k_positions
        return texts[:, 0], Where(positions, positions, order, order, padded=every.padded)

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order; a row may come more than once."""
        chosen = rows.tolist()
        if chosen == list(range(len(self.lengths))):
            return
        for number, places in enumerate(self._places):
            if places.select(chosen):
                used = places.used(self.lengths)
                for which, slots in zip(self._which, self.layers, strict=True):
                    if which == number:
                        slots.select(rows, used)
        if self._texts is not None:
            self._texts.select(rows, self.length)
        for once in self.cross:
            once.select(rows)
        for name in ("encoded", "encoded_order", "_positions"):
            value = getattr(self, name)
            if value is not None and (len(value) == len(self.lengths) or name != "encoded_order"):
                setattr(self, name, value[rows])
        self.lengths = [self.lengths[row] for row in chosen]

    def drop(self, counts: Sequence[int]) -> None:
        """Forget the last ``counts`` tokens of each row.

        Raises:
            UsageError: a ring has overwritten what they pushed out; see ``undo`` of the plan.
        """
        for places in self._places:
            places.drop(self.lengths, list(counts))
        self.lengths = [length - count for length, count in zip(self.lengths, counts, strict=True)]

    def fork(self, source: int, target: int, tokens: int) -> int:
        """Let row ``target``, which is empty, begin with the first ``tokens`` of ``source``, on the same pages.

        How many tokens it begins with: none where the rows have no pages, or those of these tokens are gone.
        """
        pages = [places for places in self._places if isinstance(places, PagePlaces)]
        if len(pages) < len(self._places) or not all(places.holds(source, tokens) for places in pages):
            return 0
        for places in pages:
            places.fork(source, target, tokens)
        self.lengths[target] = tokens
        return tokens

    def lift(self, row: int, start: int, stop: int) -> list[Entries]:
        """A copy of what each layer holds of a row's tokens from ``start`` to ``stop``."""
        found = []
        for which, slots in zip(self._which, self.layers, strict=True):
            found.append(slots.taken(*self._places[which].slots(row, start, stop)))
        return found

    def lay(self, row: int, entries: Sequence[Entries]) -> None:
        """Add tokens to a row as :meth:`lift` copied them."""
        count = entries[0][0].shape[2]
        order = torch.arange(count, device=self._device)[None] + self.lengths[row]
        with self.only([row]):
            self.extend(Where(order, order, order, order, padded=False), 1)
        for slots, held in zip(self.layers, entries, strict=True):
            slots.put(held)

    @property
    def _rows(self) -> tuple[int, ...]:
        return tuple(range(len(self.lengths))) if self._active is None else self._active

    @property
    def _held(self) -> list[int]:
        return [self.lengths[row] for row in self._rows]

    def _piece(self, new: Where, batch: int) -> Piece:
        texts = batch if new.lengths is None else len(new.lengths)
        if not self.lengths:
            self.lengths = [0] * texts
        rows, old = self._rows, tuple(self._held)
        if new.lengths is not None and texts > 1 and max(old):
            raise UsageError("texts that have begun are not read end to end", remedy="read them one by one")
        if new.lengths is not None:
            added = new.lengths
        elif new.padded:
            added = tuple((new.k_order >= 0).sum(-1).expand(batch).tolist())
        else:
            added = (new.k_order.shape[-1],) * batch
        piece = Piece(new, rows, len(self.lengths), old, added)
        return dataclasses.replace(piece, positions=self._placed(piece))

    def _placed(self, piece: Piece) -> Tensor | None:
        """Positions of every token of the piece's rows, [b, T], once some are not their order."""
        new = piece.new
        if self._positions is None and new.k_positions is new.k_order:
            return None
        if self._positions is None:
            self._positions = torch.arange(self.length, device=piece.device).repeat(piece.count, 1)
        short = max(piece.ends) - self._positions.shape[1]
        if short > 0:
            more = self._positions.new_zeros(piece.count, max(short, self._positions.shape[1]))
            self._positions = torch.cat((self._positions, more), 1)
        number, order, batch, tokens = piece.tokens()
        wide = new.k_positions.expand(len(piece.rows), -1) if new.lengths is None else new.k_positions
        self._positions[torch.tensor(piece.rows, device=piece.device)[number], order] = wide[batch, tokens]
        return self._positions[list(piece.rows)]


def _places(kind: Arrangement) -> Places:
    return RowPlaces(kind) if kind.page is None else PagePlaces(kind)
