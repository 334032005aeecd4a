"""Products of int8 weights with many rows, which become int8 codes themselves, each row with its own scale.

A row's result depends on that row alone. The product of codes is oneDNN's, which is many times quicker than float32
where the processor multiplies bytes (VNNI, AMX). Where it does not, sums of bytes overflow unnoticed (AVX2): such a
processor is found out by :func:`exact`, and multiplies numbers. The loops around the product are in ``dense8.c``.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch
from torch import Tensor

from variorum.kernels.compiled import declared, library
from variorum.kernels.int8 import LARGEST, quantised
from variorum.kernels.products import Weights, address

_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
SIGNATURES = {
    "encode_rows": (_POINTER, _NUMBER, _NUMBER, _POINTER, _POINTER),
    "decode_rows": (_POINTER, _NUMBER, _NUMBER, _POINTER, _POINTER),
}


@functools.cache
def loops() -> Any:
    """The functions of dense8.c; ``None`` where they are not compiled."""
    found = library("dense8")
    return None if found is None else declared(found, SIGNATURES)


@functools.cache
def exact() -> bool:
    """Whether this machine's product of int8 codes is what it should be, at the largest of codes too."""
    left = torch.full((64, 256), LARGEST, dtype=torch.int8)
    left[::2] *= -1
    right = torch.full((256, 64), LARGEST, dtype=torch.int8)
    return bool((torch._int_mm(left, right) == left.long() @ right.long()).all())


class Codes:
    """Weights as int8 that multiply rows as int8.

    Args:
        weights: int8 [columns out, columns in] with their scales; a bias is left to the caller.
    """

    def __init__(self, weights: Weights) -> None:
        assert weights.scale is not None
        self.weights, self.scale = weights, weights.scale.contiguous()
        self.turned = weights.weight.t()

    def product(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """x [rows, columns in] · Wᵀ, [rows, columns out] in float32; written to ``out`` where that is given."""
        if loops() is None or not exact() or x.dtype != torch.float32:
            made = self.plain(x)
            return made if out is None else out.copy_(made)
        x = x.contiguous()
        rows, columns = x.shape
        codes, scales = x.new_empty(rows, columns, dtype=torch.int8), x.new_empty(rows)
        loops().encode_rows(address(x), rows, columns, address(codes), address(scales))
        sums = x.new_empty(rows, self.turned.shape[1]) if out is None else out
        torch._int_mm(codes, self.turned, out=sums.view(torch.int32))
        loops().decode_rows(address(sums), *sums.shape, address(scales), address(self.scale))
        return sums

    def plain(self, x: Tensor) -> Tensor:
        """The definition: rows as the numbers that their codes stand for."""
        rows = quantised(x)
        return rows.dense().to(x.dtype) @ self.weights.dense().to(x.dtype).t()
