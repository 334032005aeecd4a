"""Cross-entropy of a linear layer over a wide vocabulary, without its logits.

The usual way keeps [N, V] logits, their log-softmax and their gradient until the backward pass. Here a run of rows at a
time is scored, judged and turned into gradients at once, in one buffer, so that what is kept is as large as the inputs.
The products are the same three; nothing is computed twice.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CELLS = 1 << 23
"""Scores that are held at a time: 32 MB in float32, so that products stay large and the rest stays near."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judging:
    """How scores become a loss: bent to c·tanh(x/c), and ``smoothing`` of each target spread over the vocabulary."""

    softcap: float | None = None
    smoothing: float = 0.0


PLAIN = Judging()


def linear_cross_entropy(
    x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, judging: Judging = PLAIN
) -> Tensor:
    """The sum of -log softmax(x·weightᵀ + bias)[target] over N rows, in nats; differentiable once.

    Args:
        x: [N, D].
        weight: [V, D]; bias: [V] or ``None``.
        targets: int64 [N], each below V.
    """
    total: Tensor = _Summed.apply(x, weight, bias, targets, judging)
    return total


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, judging: Judging) -> Tensor:
        wanted = ctx.needs_input_grad[:3]
        kind = x.device.type
        low = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        with torch.autocast(kind, enabled=False):
            total, grads = _walk(x.to(low), weight.to(low), bias, targets, judging, wanted)
        ctx.grads = [None if g is None or one is None else g.to(one.dtype)
                     for g, one in zip(grads, (x, weight, bias), strict=True)]  # fmt: skip
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        grads, ctx.grads = ctx.grads, None
        return (*(None if g is None else g.mul_(scale) for g in grads), None, None)


def _walk(
    x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, judging: Judging, wanted: tuple[bool, ...]
) -> tuple[Tensor, list[Tensor | None]]:
    """The summed loss, and the gradients of it that are wanted, run by run."""
    wide = torch.promote_types(x.dtype, torch.float32)
    total = torch.zeros((), dtype=wide, device=x.device)
    of_x = torch.empty_like(x) if wanted[0] else None
    # Of several runs the later ones are added to the first.
    of_weight = (torch.empty_like if len(x) else torch.zeros_like)(weight, dtype=wide) if wanted[1] else None
    of_bias = torch.zeros_like(bias, dtype=wide) if wanted[2] and bias is not None else None
    rows = max(1, CELLS // len(weight))
    for start in range(0, len(x), rows):
        part, asked = x[start : start + rows], targets[start : start + rows, None]
        scores = (part @ weight.T if bias is None else torch.addmm(bias.to(x.dtype), part, weight.T)).to(wide)
        loss, error = _judged(scores, asked, judging, any(wanted))
        total += loss
        if of_bias is not None:
            of_bias += error.sum(0)
        error = error.to(x.dtype)
        if of_x is not None:
            torch.mm(error, weight, out=of_x[start : start + rows])
        if of_weight is not None and of_weight.dtype == error.dtype:
            of_weight.addmm_(error.T, part, beta=min(start, 1))
        elif of_weight is not None:
            of_weight.add_(error.T @ part) if start else of_weight.copy_(error.T @ part)
    return total, [of_x, of_weight, of_bias]


def _judged(scores: Tensor, asked: Tensor, judging: Judging, learns: bool) -> tuple[Tensor, Tensor]:
    """The summed loss of scores [n, V], and its gradient by them; asked [n, 1]. The scores are overwritten."""
    cap, smooth = judging.softcap, judging.smoothing
    if cap is not None:
        scores = (scores / cap).tanh_().mul_(cap)
    logs = scores.log_softmax(-1)
    loss = -(1 - smooth) * logs.gather(1, asked).sum()
    if smooth:
        loss = loss - smooth * logs.mean(-1).sum()
    if not learns:
        return loss, logs
    error = logs.exp_()
    if smooth:
        error -= smooth / error.shape[-1]
    error.scatter_add_(1, asked, torch.full_like(asked, -(1 - smooth), dtype=error.dtype))
    if cap is not None:
        error *= 1 - (scores / cap).square_()
    return loss, error


__all__ = ["Judging", "linear_cross_entropy"]
