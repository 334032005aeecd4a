"""The entries of one layer, in tensors that are written in place."""

from __future__ import annotations

import torch
from torch import Tensor

from variorum.attention.cache.numbers import PLAIN, Entries, Form
from variorum.attention.cache.places import Places, Read, Span, Step


class Slots:
    """What an attention keeps of each token: tensors [rows, heads, slots, channels], as its ``places`` say.

    ``room``: slots to make at first. There are twice as many when they run out, so a token costs amortised constant
    copying.
    """

    def __init__(self, places: Places, form: Form, room: int = 0) -> None:
        self.places, self.form, self.room = places, form, room
        self.raw: Entries = ()
        self._dtype = torch.get_default_dtype()

    def append(self, *new: Tensor) -> Entries:
        """Add the new entries, [b, heads, n, channels] each; all that their queries may see come back.

        Where rows share one store, [1, heads, K, channels] comes back for all of them.
        """
        step, self._dtype = self.places.now, new[0].dtype
        held = self.form.encode(new)
        if not step.joined:
            self.put(held)
            assert step.read is not None
            return self.form.decode(self._read(step.read), self._dtype)
        before = None if step.read is None else self._read(step.read)
        every = held if before is None else tuple(torch.cat(pair, 2) for pair in zip(before, held, strict=True))
        self.put(held)
        return self.form.decode(every, self._dtype)

    def opened(self) -> tuple[Entries, Tensor] | None:
        """What the running call reads, views [b, heads, K, channels], for a caller that writes the new entries itself:
        each in its place among them, [b or 1, n], -1 for one that is not kept.

        ``None`` where they cannot be written in place as the model computes them, or nothing is held yet.
        """
        step = self.places.now
        if step.joined or step.copies is not None or not self.raw or self.form is not PLAIN:
            return None
        if step.read is None or not isinstance(step.read.rows, slice):
            return None
        self._make_room(step, self.raw)
        return self._read(step.read), step.where.remember("opened", step.targets)

    def put(self, held: Entries) -> None:
        """Write new entries as they are held."""
        step = self.places.now
        self._make_room(step, held)
        for own, new in zip(self.raw, held, strict=True):
            if step.copies is not None:
                own[:, :, step.copies[1]] = own[:, :, step.copies[0]]
            if isinstance(step.put, Span):
                own[step.put.rows, :, step.put.start : step.put.stop] = new
            else:
                value = new.transpose(1, 2)[step.put.batch, step.put.tokens]
                own.transpose(1, 2).index_put_((step.put.rows, step.put.slots), value)

    def taken(self, row: int, slots: Tensor) -> Entries:
        """A copy of what these slots of a row hold, [1, heads, n, channels] each."""
        return tuple(own[row : row + 1, :, slots] for own in self.raw)

    def select(self, rows: Tensor, used: int) -> None:
        """Keep these rows, in this order; only the first ``used`` slots hold anything."""
        chosen = []
        for own in self.raw:
            if len(rows) == len(own):
                changed = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
                own[changed, :, :used] = own[rows[changed], :, :used]
                chosen.append(own)
            else:
                fresh = own.new_zeros(len(rows), *own.shape[1:])
                fresh[:, :, :used] = own[rows, :, :used]
                chosen.append(fresh)
        self.raw = tuple(chosen)

    @property
    def bytes(self) -> int:
        """What the tensors take."""
        return sum(own.numel() * own.element_size() for own in self.raw)

    def _read(self, read: Read) -> Entries:
        return tuple(own[read.rows, :, read.start : read.stop] for own in self.raw)

    def _make_room(self, step: Step, like: Entries) -> None:
        have = self.raw[0].shape[2] if self.raw else 0
        if have >= step.slots and not torch.is_grad_enabled():
            return
        wanted = max(step.slots, 2 * have if have < step.slots else have, self.room)
        wanted = wanted if self.places.limit is None else min(wanted, self.places.limit)
        fresh = tuple(one.new_zeros(step.rows, one.shape[1], wanted, one.shape[3]) for one in like)
        for old, one in zip(self.raw, fresh, strict=False):
            one[:, :, :have] = old
        self.raw = fresh


class Once:
    """Entries that are made once and only read from then on: an encoder's keys and values, [B, heads, S, channels]."""

    def __init__(self, form: Form) -> None:
        self.form, self.raw = form, ()
        self._dtype = torch.get_default_dtype()

    raw: Entries

    def append(self, *new: Tensor) -> Entries:
        """Keep these."""
        self._dtype, self.raw = new[0].dtype, self.form.encode(new)
        return self.form.decode(self.raw, self._dtype)

    @property
    def held(self) -> Entries | None:
        """What was kept, or ``None`` before."""
        return self.form.decode(self.raw, self._dtype) if self.raw else None

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order."""
        self.raw = tuple(own[rows] for own in self.raw)

    @property
    def bytes(self) -> int:
        """What the tensors take."""
        return sum(own.numel() * own.element_size() for own in self.raw)
