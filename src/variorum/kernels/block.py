"""A whole decoder block for a few rows at once, new keys and values put in their slots of a cache.

The compiled form is in ``decode.c``. It knows every layout of :class:`variorum.spec.architecture.Layout` and needs
attention and a feed-forward of the kinds in this folder.
"""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

import torch
from torch import Tensor

from variorum.kernels.heads import Heads, Norm, Places, Turns, held
from variorum.kernels.products import Gated, Projection, decode


@dataclasses.dataclass(frozen=True)
class Around:
    """The norms of one sublayer: of what it reads, of what it gives, and of the sum."""

    before: Norm | None = None
    after: Norm | None = None
    join: Norm | None = None


class _Block(ctypes.Structure):
    """``block`` of decode.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("attention", "projections", "out", "gate", "up", "down")),
        *(
            (f"{part}_{place}", ctypes.c_void_p)
            for part in ("attends", "feeds")
            for place in ("before", "after", "join")
        ),
        *((name, ctypes.c_int64) for name in ("activation", "width", "parallel", "shared", "keeps_normed")),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """The parts of a block and how they are put together.

    ``parallel``: both sublayers read x, and ``shared`` says that they read it through one norm. ``keeps_normed``: the
    residual stream is what a sublayer reads, not what came before its norm.
    """

    width: int
    heads: Heads
    projected: Projection
    out: Projection
    inner: Projection | Gated
    down: Projection
    attends: Around
    feeds: Around
    parallel: bool = False
    shared: bool = False
    keeps_normed: bool = False

    def __post_init__(self) -> None:
        gate, up = (self.inner.packed, self.inner.up) if isinstance(self.inner, Gated) else (None, self.inner.packed)
        linears = (self.projected.packed, self.out.packed, gate, up, self.down.packed)
        norms = [getattr(part, place) for part in (self.attends, self.feeds) for place in ("before", "after", "join")]
        made = _Block(
            ctypes.addressof(self.heads.pointer.contents),
            *(None if one is None else ctypes.addressof(one) for one in linears),
            *(None if one is None else ctypes.addressof(one.pointer.contents) for one in norms),
            self.inner.kind, self.width, self.parallel, self.shared, self.keeps_normed,
        )  # fmt: skip
        object.__setattr__(self, "pointer", ctypes.pointer(made))
        mixed = self.heads.heads * self.heads.channels + self.projected.width
        object.__setattr__(self, "room", mixed + 2 * self.width + self.inner.linears[-1].weight.shape[0])

    pointer: Any = dataclasses.field(init=False, repr=False, compare=False, default=None)
    room: int = dataclasses.field(init=False, repr=False, compare=False, default=0)

    @property
    def compiled(self) -> bool:
        """Whether every part has a compiled form."""
        return all(one.compiled for one in (self.projected, self.out, self.inner, self.down))

    def run(self, x: Tensor, turns: Turns, places: Places, k: Tensor, v: Tensor) -> Tensor:
        """x [B, n, width] after the block; contiguous float32.

        New keys and values are written in the slots of k and v [B, kv_heads, K, d] that ``places`` names.
        """
        out, room = torch.empty_like(x), x.new_empty(x.shape[0] * x.shape[1], self.room)
        decode().block_run(
            self.pointer, x.data_ptr(), turns.pointer, places.pointer, held(k), held(v), room.data_ptr(), out.data_ptr()
        )
        return out

    def run_plain(self, x: Tensor, turns: Turns, places: Places, k: Tensor, v: Tensor) -> Tensor:
        """The definition of :meth:`run`."""
        read = _plain(self.attends.before, x)
        every = self.projected.plain(read).contiguous()
        self.heads.turn_plain(every, turns)
        q, *new = self.heads.split(every)
        assert places.slots is not None
        rows, tokens = (places.slots.expand(len(x), -1) >= 0).nonzero(as_tuple=True)
        for own, fresh in zip((k, v), new, strict=True):
            own[rows, :, places.slots.expand(len(x), -1)[rows, tokens]] = fresh[rows, :, tokens]
        mixed = self.heads.attend_plain(q, k, v, places).transpose(1, 2).flatten(-2)
        total = (read if self.keeps_normed else x) + _plain(self.attends.after, self.out.plain(mixed))
        if not self.parallel:
            total = _plain(self.attends.join, total)
        if not self.shared:
            read = _plain(self.feeds.before, x if self.parallel else total)
        branch = _plain(self.feeds.after, self.down.plain(self.inner.plain(read)))
        return _plain(self.feeds.join, (read if self.keeps_normed else total) + branch)


def _plain(norm: Norm | None, x: Tensor) -> Tensor:
    return x if norm is None else norm.plain(x)
