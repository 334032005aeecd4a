"""Products with weights for a few rows: every weight is read once for all rows, in float32 or as int8.

The compiled forms are in ``decode.c``. Rows beyond :data:`MOST`, other types and other devices take the plain forms.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from variorum.kernels.compiled import declared, library

MOST = 16  # as in decode.c
#: Numbered as in vector.h.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "nothing": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
}
NUMBERS = {name: number for number, name in enumerate(ACTIVATIONS)}


@dataclasses.dataclass(frozen=True)
class Weights:
    """One linear: ``weight`` [rows, columns], float32, or int8 with one ``scale`` for each row; ``bias`` [rows]."""

    weight: Tensor
    bias: Tensor | None = None
    scale: Tensor | None = None

    def dense(self) -> Tensor:
        """The weights as numbers, [rows, columns]."""
        return self.weight if self.scale is None else self.weight.to(self.scale.dtype) * self.scale[:, None]

    def plain(self, x: Tensor) -> Tensor:
        """[..., columns] -> [..., rows]"""
        return F.linear(x, self.dense(), self.bias)

    def many(self, x: Tensor) -> Tensor:
        """The same for many rows: numbers of int8 weights live no longer than their product, in a room of their own."""
        room = None if self.scale is None or torch.is_grad_enabled() else ROOM.take(self.weight)
        if room is None or self.scale is None or x.dtype != room.dtype:
            return self.plain(x)
        return F.linear(x, torch.mul(self.weight, self.scale[:, None], out=room), self.bias)


class _Room(threading.local):
    """Memory that is used again: what is given back to the system has to be cleared by it before the next use."""

    most = 8_388_608  # numbers

    def __init__(self) -> None:
        self._held: Tensor | None = None

    def take(self, like: Tensor) -> Tensor | None:
        """float32 numbers of the shape of ``like``, unknown; ``None`` for more than are worth keeping."""
        if like.numel() > self.most or like.device.type != "cpu":
            return None
        if self._held is None or self._held.numel() < like.numel():
            with torch.inference_mode(False):
                self._held = torch.empty(like.numel())
        return self._held[: like.numel()].view(like.shape)


ROOM = _Room()


class _Linear(ctypes.Structure):
    """``linear`` of decode.c."""

    _fields_ = (
        ("weight", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
    )


_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
SIGNATURES = {
    "project": (_POINTER, _NUMBER, _NUMBER, _POINTER, _NUMBER, _POINTER),
    "gated": (_POINTER, _POINTER, _NUMBER, _POINTER, _NUMBER, _POINTER),
    "norm_rows": (_POINTER, _POINTER, _NUMBER, _POINTER),
    "turn_heads": (_POINTER, _POINTER, _NUMBER, _POINTER),
    "attend": (_POINTER,) * 6,
    "block_run": (_POINTER,) * 8,
}


def decode() -> Any:
    """The functions of decode.c; ``None`` where they are not compiled."""
    found = library("decode")
    return None if found is None else _told(found)


@functools.cache
def _told(found: ctypes.CDLL) -> ctypes.CDLL:
    return declared(found, SIGNATURES)


def address(tensor: Tensor | None) -> int | None:
    """Where its numbers lie; a null pointer for ``None``."""
    return None if tensor is None else tensor.data_ptr()


def fits(x: Tensor) -> bool:
    """Whether a compiled form may read ``x``, and no gradient has to come back."""
    return x.dtype == torch.float32 and x.device.type == "cpu" and not torch.is_grad_enabled()


class _Product:
    """A compiled function over fixed weights. ``linears`` keeps what the pointers of ``packed`` point to."""

    def __init__(self, name: str, linears: Sequence[Weights], activation: str) -> None:
        # Matrices stored input by output come as transposed views, which no loop reads.
        self.linears = tuple(dataclasses.replace(one, weight=one.weight.contiguous()) for one in linears)
        self.activation = ACTIVATIONS[activation]
        self.columns = self.linears[0].weight.shape[1]
        self.kind = NUMBERS[activation]
        self.packed = (_Linear * len(self.linears))(*map(_described, self.linears))
        self._run = getattr(decode(), name, None) if all(map(_readable, self.linears)) else None

    @property
    def compiled(self) -> bool:
        """Whether it runs compiled at all."""
        return self._run is not None


class Projection(_Product):
    """Several linears that read one input, activated: [..., columns] -> [..., sum of rows]."""

    def __init__(self, linears: Sequence[Weights], activation: str = "nothing") -> None:
        super().__init__("project", linears, activation)
        self.width = sum(one.weight.shape[0] for one in self.linears)

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.numel() // self.columns
        if self._run is None or not fits(x):
            return self.plain(x)
        if rows > MOST:
            made = [one.many(x) for one in self.linears]
            return self.activation(made[0] if len(made) == 1 else torch.cat(made, -1))
        x = x.contiguous()
        out = x.new_empty(*x.shape[:-1], self.width)
        self._run(self.packed, len(self.linears), self.kind, x.data_ptr(), rows, out.data_ptr())
        return out

    def plain(self, x: Tensor) -> Tensor:
        """The definition."""
        made = [one.plain(x) for one in self.linears]
        return self.activation(made[0] if len(made) == 1 else torch.cat(made, -1))


class Gated(_Product):
    """activation(gate(x)) · up(x), [..., columns] -> [..., rows]."""

    def __init__(self, gate: Weights, up: Weights, activation: str) -> None:
        super().__init__("gated", (gate, up), activation)
        self.up = self.packed[1]

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.numel() // self.columns
        if self._run is None or not fits(x):
            return self.plain(x)
        if rows > MOST:
            gate, up = self.linears
            return self.activation(gate.many(x)).mul_(up.many(x))
        x = x.contiguous()
        out = x.new_empty(*x.shape[:-1], self.linears[0].weight.shape[0])
        self._run(self.packed, ctypes.byref(self.up), self.kind, x.data_ptr(), rows, out.data_ptr())
        return out

    def plain(self, x: Tensor) -> Tensor:
        """The definition."""
        gate, up = self.linears
        return self.activation(gate.plain(x)) * up.plain(x)


def _described(one: Weights) -> _Linear:
    rows, columns = one.weight.shape
    return _Linear(address(one.weight), address(one.scale), address(one.bias), rows, columns)


def _readable(one: Weights) -> bool:
    kinds = (torch.float32,) if one.scale is None else (torch.int8,)
    rest = [tensor for tensor in (one.bias, one.scale) if tensor is not None]
    plain = all(t.is_contiguous() and t.device.type == "cpu" for t in (one.weight, *rest))
    return plain and one.weight.dtype in kinds and all(t.dtype == torch.float32 for t in rest)
