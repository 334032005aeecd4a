"""Rotary angles and their application. Angles are taken in float64, whatever the model's dtype."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from variorum.parts.constants import copied
from variorum.parts.where import Where
from variorum.spec.positions import (
    DynamicNtkScaling,
    LinearScaling,
    Llama3Scaling,
    NtkScaling,
    RopeScaling,
    Rotary,
    YarnScaling,
)


def inverse_frequencies(rotary: Rotary, dims: int) -> tuple[Tensor, float]:
    """Radians per position of each channel pair, [dims/2] float64, and the factor on cos and sin.

    Under dynamic scaling these are the frequencies of a text no longer than the original length; see
    :func:`running_frequencies`.
    """
    theta = rotary.scaling.base(rotary.theta, dims) if isinstance(rotary.scaling, NtkScaling) else rotary.theta
    plain = theta ** (-torch.arange(0, dims, 2, dtype=torch.float64, device="cpu") / dims)
    return _scaled(plain, rotary.scaling, rotary.theta, dims)


def _inverse(rotary: Rotary, dims: int) -> Tensor:
    return inverse_frequencies(rotary, dims)[0]


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


def running_frequencies(rotary: Rotary, scaling: DynamicNtkScaling, dims: int, lengths: Tensor) -> Tensor:
    """Radians per position where the base follows the text's length, [...] -> [..., dims/2] of the same dtype."""
    beyond = (lengths / scaling.original_length).clamp(min=1.0)
    base = rotary.theta * (scaling.factor * beyond - (scaling.factor - 1)) ** (dims / (dims - 2))
    return base[..., None] ** (-torch.arange(0, dims, 2, dtype=lengths.dtype, device=lengths.device) / dims)


def running_lengths(positions: Tensor, documents: Tensor | None) -> Tensor:
    """How long the text around each token is: its last position + 1, [B or 1, T] -> the same.

    Where several ``documents`` share a row, each is a text of its own.
    """
    if documents is None:
        return (positions.amax(-1, keepdim=True) + 1).expand(positions.shape)
    together = documents[:, :, None] == documents[:, None, :]
    return positions[:, None, :].masked_fill(~together, -1).amax(-1) + 1


def rotary_tables(
    rotary: Rotary, dims: int, positions: Tensor, dtype: torch.dtype, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """cos and sin at integer ``positions`` [B or 1, T] -> two [B or 1, 1, T, dims/2], cast to ``dtype`` last.

    ``lengths`` [B or 1, T] are needed under dynamic scaling.
    """
    wide = torch.float32 if positions.device.type == "mps" else torch.float64
    inverse, factor = inverse_frequencies(rotary, dims)
    if positions.device.type != "cpu":
        inverse = copied(_inverse, rotary, dims, device=positions.device, dtype=wide)
    if isinstance(rotary.scaling, DynamicNtkScaling) and lengths is not None:
        inverse = running_frequencies(rotary, rotary.scaling, dims, lengths.to(wide))[:, None]
    angles = positions[:, None, :, None].to(wide) * inverse
    return (angles.cos() * factor).to(dtype), (angles.sin() * factor).to(dtype)


def tables_of(rotary: Rotary, dims: int, where: Where, dtype: torch.dtype) -> tuple[tuple[Tensor, Tensor], ...]:
    """cos and sin of the queries, and those of the keys, made once per forward for all layers that agree."""

    def of(positions: Tensor, documents: Tensor | None) -> tuple[Tensor, Tensor]:
        dynamic = isinstance(rotary.scaling, DynamicNtkScaling)
        lengths = running_lengths(positions, documents) if dynamic else None
        return rotary_tables(rotary, dims, positions, dtype, lengths)

    key = ("rotary", rotary, dims, dtype)
    queries = where.remember((*key, "q"), lambda: of(where.q_positions, where.q_documents))
    if where.k_positions is where.q_positions:
        return queries, queries
    return queries, where.remember((*key, "k"), lambda: of(where.k_positions, where.k_documents))


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
