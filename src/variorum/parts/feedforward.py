"""Feed-forward parts: two matrices, three matrices, or routed experts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from variorum.parts.dropout import dropout
from variorum.parts.lora import whole_weight
from variorum.parts.trace import Trace
from variorum.spec import feedforward as spec


def gelu_megatron(x: Tensor) -> Tensor:
    """The tanh GELU with 0.79788456 for sqrt(2/pi), which in float32 and below is the same number."""
    if x.dtype != torch.float64:
        return F.gelu(x, approximate="tanh")
    return 0.5 * x * (1 + (0.79788456 * x * (1 + 0.044715 * x * x)).tanh())


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
    "gelu_megatron": gelu_megatron,
}


def kept_finite(x: Tensor) -> Tensor:
    """``x``, or in float16 what of it float16 holds (huggingface/transformers#5651)."""
    if x.dtype != torch.float16:
        return x
    limit = torch.finfo(torch.float16).max - 1000
    return x.clamp(-limit, limit)


def down_projection(linear: nn.Linear, x: Tensor) -> Tensor:
    """``linear(x)``; in float16 the product is taken in float32 and kept finite.

    T5-sized activations pass 65,504 here (huggingface/transformers#5651).
    """
    if x.dtype != torch.float16:
        return linear(x)
    bias = None if linear.bias is None else linear.bias.float()
    return kept_finite(F.linear(x.float(), whole_weight(linear).float(), bias).half())


class MLP(nn.Module):
    """down(activation(up(x))), [..., D] -> [..., D]."""

    def __init__(self, ff: spec.MLP, width: int) -> None:
        super().__init__()
        self.activation, self.dropout = ACTIVATIONS[ff.activation], ff.dropout
        self.up = nn.Linear(width, ff.width, bias=ff.bias)
        self.down = nn.Linear(ff.width, width, bias=ff.bias)

    def forward(self, x: Tensor, trace: Trace) -> Tensor:
        return down_projection(self.down, dropout(self.activation(self.up(x)), self.dropout, self.training))


class GatedMLP(nn.Module):
    """down(activation(gate(x)) * up(x)), [..., D] -> [..., D]."""

    def __init__(self, ff: spec.GatedMLP, width: int) -> None:
        super().__init__()
        self.activation, self.dropout = ACTIVATIONS[ff.activation], ff.dropout
        self.gate = nn.Linear(width, ff.width, bias=ff.bias)
        self.up = nn.Linear(width, ff.width, bias=ff.bias)
        self.down = nn.Linear(ff.width, width, bias=ff.bias)

    def forward(self, x: Tensor, trace: Trace) -> Tensor:
        inner = self.activation(self.gate(x)) * self.up(x)
        return down_projection(self.down, dropout(inner, self.dropout, self.training))


def build_feedforward(ff: spec.AnyFeedForward, width: int) -> nn.Module:
    """The module for a feed-forward spec."""
    if isinstance(ff, spec.MLP):
        return MLP(ff, width)
    if isinstance(ff, spec.GatedMLP):
        return GatedMLP(ff, width)
    from variorum.parts.experts import Experts

    return Experts(ff, width)
