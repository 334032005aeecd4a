"""What a step of training does between its matrix products: dropout, and softmax with dropout, forward and back.

Each function runs the loop of ``train.c`` on float32 in the processor's memory where it was compiled, and its plain
form everywhere else. No mask is stored: what is kept follows from a seed and a number's place.
"""

from __future__ import annotations

import ctypes
import dataclasses

import torch
from torch import Tensor

from variorum.kernels.compiled import library

_FULL = 1 << 32


@dataclasses.dataclass(frozen=True)
class Drops:
    """Which numbers fall out: a share ``rate`` of them, drawn by ``seed``, 64 bits. The rest grows by 1/(1 - rate)."""

    rate: float
    seed: int

    @classmethod
    def drawn(cls, rate: float) -> Drops:
        """The next of torch's own stream."""
        return cls(rate, int(torch.randint(-(1 << 63), (1 << 63) - 1, (), dtype=torch.int64, device="cpu")) % (1 << 64))

    def next(self, number: int) -> Drops:
        """Those of a further part of the same thing."""
        return Drops(self.rate, (self.seed + number * 0x9E3779B97F4A7C15) % (1 << 64))

    @property
    def limit(self) -> int:
        """Of 2^32 numbers, how many fall out."""
        return round(self.rate * _FULL)

    @property
    def scale(self) -> float:
        """What the rest is multiplied by."""
        return 1 / (1 - self.limit / _FULL)


class _Drops(ctypes.Structure):
    _fields_ = (("seed", ctypes.c_uint64), ("limit", ctypes.c_uint32), ("scale", ctypes.c_float))


def _loops(*tensors: Tensor | None) -> ctypes.CDLL | None:
    """The library, where all tensors are what it takes."""
    for one in tensors:
        if one is not None and not (one.dtype == torch.float32 and one.device.type == "cpu" and one.is_contiguous()):
            return None
    return library("train")


def _given(drops: Drops) -> object:
    return ctypes.byref(_Drops(drops.seed, drops.limit, drops.scale))


def _at(tensor: Tensor | None) -> ctypes.c_void_p | None:
    return None if tensor is None else ctypes.c_void_p(tensor.data_ptr())


def drop(x: Tensor, drops: Drops, rest: Tensor | None = None) -> Tensor:
    """``rest`` + what is left of ``x``, same shape."""
    loops = _loops(x, rest)
    if loops is None:
        left = x * kept(x, drops)
        return left if rest is None else rest + left
    out = torch.empty_like(x)
    loops.drop(_at(x), _at(rest), _at(out), ctypes.c_int64(x.numel()), _given(drops))
    return out


def soften(scores: Tensor, scale: float, drops: Drops, queries: int = 0) -> Tensor:
    """Scores [..., Q, K] become softmax(scale · scores) in place; returns what dropout leaves of it.

    Args:
        queries: above 0, a row sees the keys up to its own, which is the last for the last of so many rows.
    """
    loops = _loops(scores)
    if loops is None:
        if queries:
            scores.masked_fill_(_unseen(scores, queries), -torch.inf)
        scores.copy_((scores * scale).softmax(-1))
        return scores * kept(scores, drops)
    out = torch.empty_like(scores)
    loops.soften(_at(scores), _at(out), *_sizes(scores, queries), ctypes.c_float(scale), _given(drops))
    return out


def unsoften(weights: Tensor, grad: Tensor, scale: float, drops: Drops, queries: int = 0) -> None:
    """The gradient of what :func:`soften` returned becomes that of its scores, in place; ``weights`` is the softmax."""
    loops = _loops(weights, grad)
    if loops is None:
        grad.mul_(kept(weights, drops))
        grad.sub_((grad * weights).sum(-1, keepdim=True)).mul_(weights).mul_(scale)
        return
    loops.unsoften(_at(weights), _at(grad), *_sizes(weights, queries), ctypes.c_float(scale), _given(drops))


def kept(like: Tensor, drops: Drops) -> Tensor:
    """The factor of each number of ``like``: 0, or the scale."""
    place = torch.arange(like.numel(), device=like.device).view(like.shape)
    return (_noise(place, drops.seed) >= drops.limit).to(like.dtype) * drops.scale


def _noise(place: Tensor, seed: int) -> Tensor:
    """32 bits for each place; see train.c."""
    low = _FULL - 1
    x = (place * 0x9E3779B9 + (seed & low)) & low
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & low
    x = ((x ^ (x >> 15)) * 0x846CA68B) & low
    x = ((x ^ (x >> 16)) + (seed >> 32)) & low
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & low
    x = ((x ^ (x >> 15)) * 0xD35A2D97) & low
    return x ^ (x >> 15)


def _unseen(scores: Tensor, queries: int) -> Tensor:
    rows, width = scores.shape[-2:]
    last = torch.arange(rows, device=scores.device)[:, None] % queries + width - queries
    return torch.arange(width, device=scores.device) > last


def _sizes(scores: Tensor, queries: int) -> tuple[ctypes.c_int64, ctypes.c_int64, ctypes.c_int64]:
    width = scores.shape[-1]
    return ctypes.c_int64(scores.numel() // max(1, width)), ctypes.c_int64(width), ctypes.c_int64(queries)
