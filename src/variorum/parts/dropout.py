"""Dropout that stores no mask, alone or on its way into the residual stream; on other devices torch's own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from variorum.kernels.train import Drops, drop


def dropout(x: Tensor, rate: float, training: bool, rest: Tensor | None = None) -> Tensor:
    """What dropout leaves of ``x``, added to ``rest`` of the same shape if there is one; in training alone."""
    if not training or rate == 0:
        return x if rest is None else rest + x
    if not loops_pay(x) or (rest is not None and rest.dtype != x.dtype):
        left = F.dropout(x, rate)
        return left if rest is None else rest + left
    out: Tensor = _Dropped.apply(x, rest, Drops.drawn(rate))
    return out


def loops_pay(x: Tensor) -> bool:
    """Whether ``x`` is where, and of a kind, that our own loops or their plain form serve."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and not torch.compiler.is_compiling()


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rest: Tensor | None, drops: Drops) -> Tensor:
        ctx.drops = drops
        return drop(x.contiguous(), drops, None if rest is None else rest.contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        of_rest = grad if ctx.needs_input_grad[1] else None
        return drop(grad.contiguous(), ctx.drops), of_rest, None
