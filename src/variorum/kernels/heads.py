"""Norms, and what attention does between its projections, for float32 on a CPU; compiled forms in ``decode.c``."""

from __future__ import annotations

import ctypes
import dataclasses
import math
from typing import Any

import torch
from torch import Tensor

from variorum.kernels.products import address, decode

WIDEST = 1024  # channels of one head; as in decode.c


class _Norm(ctypes.Structure):
    """``norm`` of decode.c."""

    _fields_ = (
        ("weight", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("width", ctypes.c_int64),
        ("centred", ctypes.c_int64),
        ("eps", ctypes.c_float),
        ("offset", ctypes.c_float),
    )


@dataclasses.dataclass(frozen=True)
class Norm:
    """LayerNorm where ``centred``, else RMSNorm. What is stored of a weight w is w - ``offset``."""

    weight: Tensor
    bias: Tensor | None
    eps: float
    centred: bool
    offset: float = 0.0

    def __post_init__(self) -> None:
        made = _Norm(address(self.weight), address(self.bias), self.weight.numel(), self.centred, self.eps, self.offset)
        object.__setattr__(self, "pointer", ctypes.pointer(made))

    def run(self, x: Tensor) -> Tensor:
        """Every row of x [..., width] normed; float32, contiguous, on a CPU."""
        out = torch.empty_like(x)
        decode().norm_rows(self.pointer, x.data_ptr(), x.numel() // self.weight.numel(), out.data_ptr())
        return out

    pointer: Any = dataclasses.field(init=False, repr=False, compare=False, default=None)

    def plain(self, x: Tensor) -> Tensor:
        """The definition of :meth:`run`."""
        x = x - x.mean(-1, keepdim=True) if self.centred else x
        y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * (self.weight + self.offset)
        return y if self.bias is None else y + self.bias


class _Attention(ctypes.Structure):
    """``attention`` of decode.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("heads", "kv_heads", "channels", "rotated", "interleaved")),
        *((name, ctypes.c_int64) for name in ("causal", "window")),
        *((name, ctypes.c_void_p) for name in ("query_norm", "key_norm")),
        *((name, ctypes.c_float) for name in ("clip", "scale", "softcap")),
    )


class _Held(ctypes.Structure):
    """``held`` of decode.c."""

    _fields_ = (("data", ctypes.c_void_p), *((name, ctypes.c_int64) for name in ("row", "head", "token")))


class _Places(ctypes.Structure):
    """``places`` of decode.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("query_order", "key_order")),
        *((name, ctypes.c_int64) for name in ("query_row", "key_row", "rows", "queries", "keys")),
        ("bias", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("bias_row", "bias_head", "bias_query", "bias_key")),
        ("slots", ctypes.c_void_p),
        ("slots_row", ctypes.c_int64),
    )


class _Turns(ctypes.Structure):
    """``turns`` of decode.c."""

    _fields_ = (*((name, ctypes.c_void_p) for name in ("cosine", "sine")), ("period", ctypes.c_int64))


class Turns:
    """cos and sin [..., rotated / 2], or ``None``; the r-th of m rows takes row r modulo their number."""

    def __init__(self, tables: tuple[Tensor, Tensor] | None = None) -> None:
        self.tables = None if tables is None else tuple(table.contiguous() for table in tables)
        self.period = 1 if self.tables is None else self.tables[0].numel() // self.tables[0].shape[-1]
        self.pointer = ctypes.pointer(_Turns(*(map(address, self.tables or (None, None))), self.period))


class Places:
    """Where B rows of queries and keys stand: orders [B or 1, Q] and [B or 1, K], -1 where nothing is.

    ``bias`` [B or 1, H, Q, K] is added to the scaled scores. ``slots`` [B or 1, Q] say which keys are the queries' own,
    -1 for none, where those are still to be written. All layers of a forward share one.
    """

    def __init__(
        self, rows: int, query_order: Tensor, key_order: Tensor, bias: Tensor | None = None, slots: Tensor | None = None
    ) -> None:
        self.query_order, self.key_order = query_order.contiguous(), key_order.contiguous()
        self.bias, self.rows, self.keys = bias, rows, key_order.shape[1]
        self.slots = None if slots is None else slots.contiguous()
        self.queries = query_order.shape[1]
        steps: tuple[int, ...] = (0, 0, 0, 0)
        if bias is not None:
            steps = (bias.stride(0) if len(bias) > 1 else 0, *bias.stride()[1:])
        made = _Places(
            address(self.query_order), address(self.key_order), self.queries if len(query_order) > 1 else 0,
            self.keys if len(key_order) > 1 else 0, rows, self.queries, self.keys, address(bias), *steps,
            address(self.slots), 0 if slots is None or len(slots) == 1 else self.queries,
        )  # fmt: skip
        self.pointer = ctypes.pointer(made)


@dataclasses.dataclass(frozen=True)
class Heads:
    """The sizes and settings of one attention, as :class:`variorum.spec.attention.Attention` names them."""

    heads: int
    kv_heads: int
    channels: int
    rotated: int = 0
    interleaved: bool = False
    causal: bool = True
    window: int = 0
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    clip: float = math.inf
    scale: float = 1.0
    softcap: float = 0.0
    pointer: Any = dataclasses.field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        norms = (None if norm is None else ctypes.addressof(norm.pointer.contents) for norm in self.norms)
        made = _Attention(
            self.heads, self.kv_heads, self.channels, self.rotated, self.interleaved, self.causal, self.window, *norms,
            self.clip, self.scale, self.softcap,
        )  # fmt: skip
        object.__setattr__(self, "pointer", ctypes.pointer(made))

    @property
    def changes(self) -> bool:
        """Whether :meth:`turn` does something without tables."""
        return self.norms != (None, None) or self.clip < math.inf

    def split(self, every: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [B, H, T, channels], keys and values of [B, T, (heads + 2·kv_heads)·channels], as views of it."""
        apart = every.unflatten(-1, (-1, self.channels)).transpose(1, 2)
        q, k, v = apart.split((self.heads, self.kv_heads, self.kv_heads), 1)
        return q, k, v

    @property
    def norms(self) -> tuple[Norm | None, Norm | None]:
        """Over one head of the queries, and of the keys."""
        return self.query_norm, self.key_norm

    def turn(self, x: Tensor, turns: Turns) -> None:
        """Clip, norm and rotate projected queries, keys and values [m, (heads + 2·kv_heads)·channels] in place."""
        rows = x.numel() // ((self.heads + 2 * self.kv_heads) * self.channels)
        decode().turn_heads(self.pointer, x.data_ptr(), rows, turns.pointer)

    def turn_plain(self, x: Tensor, turns: Turns) -> None:
        """The definition of :meth:`turn`."""
        every = x.view(-1, self.heads + 2 * self.kv_heads, self.channels)
        every.clamp_(-self.clip, self.clip)
        parts = every.split((self.heads, self.kv_heads, self.kv_heads), 1)
        for part, norm in zip(parts, self.norms, strict=False):
            if norm is not None:
                part.copy_(norm.plain(part))
            if turns.tables is not None:
                repeats = len(every) // turns.period
                near = [t.reshape(-1, 1, t.shape[-1]).repeat(repeats, 1, 1) for t in turns.tables]
                _turn(part[..., : self.rotated], *near, interleaved=self.interleaved)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, places: Places) -> Tensor:
        """q [B, H, Q, channels] over keys and values [B, kv_heads, K, channels] -> [B, H, Q, channels]."""
        q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
        out = q.new_empty(q.shape[0], q.shape[2], q.shape[1], q.shape[3])
        decode().attend(self.pointer, places.pointer, held(q), held(k), held(v), out.data_ptr())
        return out.transpose(1, 2)

    def attend_plain(self, q: Tensor, k: Tensor, v: Tensor, places: Places) -> Tensor:
        """The definition of :meth:`attend`."""
        repeats = self.heads // self.kv_heads
        k, v = (held.repeat_interleave(repeats, 1) for held in (k, v))
        scores = q @ k.transpose(-1, -2) * self.scale
        if places.bias is not None:
            scores = scores + places.bias
        if self.softcap:
            scores = self.softcap * (scores / self.softcap).tanh()
        asks, holds = places.query_order[:, :, None], places.key_order[:, None, :]
        seen = (asks >= 0) & (holds >= 0)
        if self.causal:
            seen = seen & (holds <= asks)
        if self.window:
            seen = seen & (holds > asks - self.window)
        weights = scores.masked_fill(~seen[:, None], -torch.inf).softmax(-1).nan_to_num(0.0)
        return weights @ v


def held(x: Tensor) -> Any:
    """A tensor [B or 1, heads, tokens, channels] as decode.c reads it."""
    return ctypes.byref(_Held(x.data_ptr(), x.stride(0) if len(x) > 1 else 0, x.stride(1), x.stride(2)))


def _turn(x: Tensor, cosine: Tensor, sine: Tensor, *, interleaved: bool) -> None:
    one, two = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    first, second = one.clone(), two.clone()
    one.copy_(first * cosine - second * sine)
    two.copy_(second * cosine + first * sine)
