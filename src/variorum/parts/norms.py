"""Norms as modules. A missing norm is the identity."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from variorum.spec import norms as spec


class LayerNorm(nn.Module):
    """LayerNorm over the last axis, [..., D] -> [..., D]."""

    def __init__(self, norm: spec.LayerNorm, width: int) -> None:
        super().__init__()
        self.eps = norm.eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if norm.bias else None

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """RMSNorm over the last axis, computed in float32 or better, [..., D] -> [..., D]."""

    def __init__(self, norm: spec.RMSNorm, width: int) -> None:
        super().__init__()
        self.eps, self.unit_offset = norm.eps, norm.unit_offset
        self.weight = nn.Parameter(torch.zeros(width) if norm.unit_offset else torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        if self.unit_offset:
            # Gemma multiplies before it rounds down; the others after.
            return (normed * (1.0 + self.weight.to(normed.dtype))).to(x.dtype)
        return self.weight * normed.to(x.dtype)


def build_norm(norm: spec.Norm | None, width: int) -> nn.Module:
    """The module for a norm spec; ``nn.Identity`` for ``None``."""
    if norm is None:
        return nn.Identity()
    return LayerNorm(norm, width) if isinstance(norm, spec.LayerNorm) else RMSNorm(norm, width)
