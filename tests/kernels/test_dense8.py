"""Products of int8 codes are those of the numbers that the codes stand for."""

from __future__ import annotations

import pytest
import torch

from variorum.kernels import dense8
from variorum.kernels.dense8 import Codes
from variorum.kernels.int8 import quantised

SHAPES = [(1, 16, 16), (3, 5, 7), (17, 384, 100), (64, 33, 129), (130, 96, 48)]


def drawn(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("rows", "columns", "width"), SHAPES)
def test_the_quick_product_is_the_definition(rows, columns, width):
    codes, x = Codes(quantised(drawn(width, columns))), drawn(rows, columns, 1)
    right = codes.plain(x.double())
    assert float((codes.product(x) - right).abs().max()) <= 1e-6 * float(right.abs().max())
    held = torch.empty(rows, width)
    assert codes.product(x, held) is held and torch.equal(held, codes.product(x))


def test_a_row_is_the_same_whatever_stands_beside_it():
    codes, x = Codes(quantised(drawn(48, 64))), drawn(40, 64, 1)
    wild = torch.cat((x[:3], 1e6 * x[3:]))
    assert torch.equal(codes.product(x)[:3], codes.product(wild)[:3]) and torch.equal(
        codes.product(x)[:3], codes.product(x[:3])
    )


def test_a_row_of_zeros_gives_zeros():
    codes = Codes(quantised(drawn(8, 32)))
    assert not codes.product(torch.zeros(20, 32)).any()


def test_where_bytes_overflow_numbers_are_multiplied(monkeypatch):
    codes, x = Codes(quantised(drawn(24, 32))), drawn(20, 32, 1)
    quick = codes.product(x)
    monkeypatch.setattr(torch, "_int_mm", lambda left, right, out=None: torch.zeros(len(left), right.shape[1]).int())
    dense8.exact.cache_clear()
    try:
        assert not dense8.exact()
        assert torch.equal(codes.product(x), codes.plain(x))
        torch.testing.assert_close(codes.product(x), quick)
    finally:
        monkeypatch.undo()
        dense8.exact.cache_clear()
