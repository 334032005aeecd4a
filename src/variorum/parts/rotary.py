"""Rotary angles and their application. Angles are taken in float64, whatever the model's dtype."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from variorum.spec.positions import LinearScaling, Llama3Scaling, RopeScaling, Rotary, YarnScaling


def inverse_frequencies(rotary: Rotary, dims: int) -> tuple[Tensor, float]:
    """Radians per position of each channel pair, [dims/2] float64, and the factor on cos and sin."""
    plain = rotary.theta ** (-torch.arange(0, dims, 2, dtype=torch.float64, device="cpu") / dims)
    return _scaled(plain, rotary.scaling, rotary.theta, dims)


def _scaled(plain: Tensor, scaling: RopeScaling | None, theta: float, dims: int) -> tuple[Tensor, float]:
    if isinstance(scaling, LinearScaling):
        return plain / scaling.factor, 1.0
    if isinstance(scaling, Llama3Scaling):
        turns = scaling.original_length * plain / (2 * math.pi)
        keep = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
        keep = keep.clamp(0, 1)
        return plain * keep + plain / scaling.factor * (1 - keep), 1.0
    if isinstance(scaling, YarnScaling):
        keep = 1 - _yarn_ramp(scaling, theta, dims)
        factor = scaling.attention_factor
        return (
            plain * keep + plain / scaling.factor * (1 - keep),
            0.1 * math.log(scaling.factor) + 1.0 if factor is None else factor,
        )
    return plain, 1.0


def _yarn_ramp(scaling: YarnScaling, theta: float, dims: int) -> Tensor:
    """0 where a pair turns often enough to keep, 1 where it is fully interpolated, [dims/2]."""

    def pair_turning(times: float) -> float:
        return dims * math.log(scaling.original_length / (times * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_turning(scaling.beta_fast), pair_turning(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    span = high - low or 0.001
    return ((torch.arange(dims // 2, dtype=torch.float64) - low) / span).clamp(0, 1)


def rotary_tables(rotary: Rotary, dims: int, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin at integer ``positions`` [B or 1, T] -> two [B or 1, 1, T, dims/2], cast to ``dtype`` last."""
    inverse, factor = inverse_frequencies(rotary, dims)
    wide = torch.float32 if positions.device.type == "mps" else torch.float64
    angles = positions[:, None, :, None].to(wide) * inverse.to(positions.device, wide)
    return (angles.cos() * factor).to(dtype), (angles.sin() * factor).to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Rotate the first 2·cos.shape[-1] channels of x [B, H, T, d]; the rest pass."""
    dims = 2 * cos.shape[-1]
    turned, rest = x[..., :dims], x[..., dims:]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        out = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    else:
        a, b = turned.chunk(2, -1)
        out = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    return torch.cat((out, rest), -1) if rest.shape[-1] else out
