"""A whole decoder block for a few rows, in two calls; between them the caller puts keys and values in its cache.

The compiled form is in ``decode.c``. It knows every layout of :class:`variorum.spec.architecture.Layout` and needs
attention and a feed-forward of the kinds in this folder.
"""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

import torch
from torch import Tensor

from variorum.kernels.heads import Heads, Norm, Places, held
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
        heads = self.heads.heads * self.heads.channels
        object.__setattr__(self, "room", heads + 2 * self.width + self.inner.linears[-1].weight.shape[0])

    pointer: Any = dataclasses.field(init=False, repr=False, compare=False, default=None)
    room: int = dataclasses.field(init=False, repr=False, compare=False, default=0)

    @property
    def compiled(self) -> bool:
        """Whether every part has a compiled form."""
        return all(one.compiled for one in (self.projected, self.out, self.inner, self.down))

    def begin(self, x: Tensor, cosine: Tensor | None, sine: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [B, H, T, d], keys and values [B, kv_heads, T, d] of x [B, T, width]; contiguous float32.

        The tables are those of :meth:`Heads.turn`.
        """
        every = x.new_empty(x.shape[0], x.shape[1], self.projected.width)
        period = 1 if cosine is None else cosine.numel() // cosine.shape[-1]
        cosine_at, sine_at = (None if one is None else one.data_ptr() for one in (cosine, sine))
        rows = x.shape[0] * x.shape[1]
        decode().block_begin(self.pointer, x.data_ptr(), rows, cosine_at, sine_at, period, every.data_ptr())
        return self.heads.split(every)

    def begin_plain(self, x: Tensor, cosine: Tensor | None, sine: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The definition of :meth:`begin`."""
        every = self.projected.plain(_plain(self.attends.before, x)).contiguous()
        self.heads.turn_plain(every, cosine, sine)
        return self.heads.split(every)

    def finish(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, places: Places) -> Tensor:
        """x [B, T, width] after the block, whose attention sees keys and values [B, kv_heads, K, d]."""
        rows = x.shape[0] * x.shape[1]
        out, room = torch.empty_like(x), x.new_empty(rows, self.room)
        decode().block_finish(
            self.pointer, x.data_ptr(), rows, places.pointer, held(q), held(k), held(v), room.data_ptr(), out.data_ptr()
        )
        return out

    def finish_plain(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, places: Places) -> Tensor:
        """The definition of :meth:`finish`."""
        read = _plain(self.attends.before, x)
        mixed = self.heads.attend_plain(q, k, v, places).transpose(1, 2).flatten(-2)
        total = (read if self.keeps_normed else x) + _plain(self.attends.after, self.out.plain(mixed))
        if not self.parallel:
            total = _plain(self.attends.join, total)
        if not self.shared:
            read = _plain(self.feeds.before, x if self.parallel else total)
        branch = _plain(self.feeds.after, self.down.plain(self.inner.plain(read)))
        return _plain(self.feeds.join, (read if self.keeps_normed and not self.parallel else total) + branch)


def _plain(norm: Norm | None, x: Tensor) -> Tensor:
    return x if norm is None else norm.plain(x)
