"""Weights as int8, one scale for each output channel, symmetric about zero."""

from __future__ import annotations

import torch
from torch import Tensor

from variorum.kernels.products import Weights

LARGEST = 127  # -128 stays unused, so that a code and its negative are both there


def quantised(weight: Tensor, scale: Tensor | None = None) -> Weights:
    """float32 [rows, columns] as int8 codes.

    Args:
        weight: finite numbers.
        scale: [rows], what a code of 1 stands for; by default the largest number of each row becomes 127.
    """
    if scale is None:
        scale = weight.abs().amax(-1) / LARGEST
    # A row of zeros has no scale of its own, and any serves.
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    codes = (weight / scale[:, None]).round().clamp(-LARGEST, LARGEST)
    return Weights(codes.to(torch.int8).contiguous(), None, scale)
