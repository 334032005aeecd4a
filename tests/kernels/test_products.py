"""Compiled products are the plain ones, whatever the number of rows, their width, and how weights are held."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from variorum.kernels.int8 import quantised
from variorum.kernels.products import ACTIVATIONS, MOST, Gated, Projection, Weights

ROWS = [1, 2, 3, 5, 8, 13, MOST]


def weights(rows: int, columns: int, *, int8: bool = False, bias: bool = True) -> Weights:
    held = quantised(torch.randn(rows, columns)) if int8 else Weights(torch.randn(rows, columns))
    return Weights(held.weight, torch.randn(rows) if bias else None, held.scale)


def close(ours: Tensor, plain: Tensor) -> bool:
    return ours.shape == plain.shape and bool((ours - plain).abs().max() <= 3e-6 * plain.abs().max())


@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
@pytest.mark.parametrize("rows", ROWS)
def test_linears_that_read_one_input_are_one_product(loops, rows, int8):
    torch.manual_seed(rows)
    parts = [weights(37, 75, int8=int8), weights(16, 75, int8=int8, bias=False), weights(3, 75, int8=int8)]
    product, x = Projection(parts), torch.randn(rows, 75)
    assert product.compiled
    assert close(product(x), product.plain(x))


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_activations_are_torchs(loops, activation):
    torch.manual_seed(0)
    x = torch.linspace(-30, 30, 16 * 9).view(9, 16)
    product = Projection([Weights(torch.eye(16))], activation)
    assert close(product(x), product.plain(x).double().float())
    near = torch.linspace(-4, 4, 16 * 9).view(9, 16)
    exact = ACTIVATIONS[activation](near.double())
    assert float((product(near) - exact).abs().max()) < 6e-7


@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
@pytest.mark.parametrize("rows", ROWS)
def test_a_gate_multiplies_what_it_stands_beside(loops, rows, int8):
    torch.manual_seed(rows)
    product = Gated(weights(50, 64, int8=int8), weights(50, 64, int8=int8), "silu")
    x = torch.randn(1, rows, 64)
    assert close(product(x), product.plain(x))


@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
def test_matrices_stored_input_by_output_run_compiled_too(loops, int8):
    torch.manual_seed(0)
    turned, x = torch.randn(40, 24).t(), torch.randn(5, 40)
    product = Projection([quantised(turned) if int8 else Weights(turned)])
    assert product.compiled and not turned.is_contiguous()
    assert close(product(x), product.plain(x))


def test_a_result_does_not_depend_on_the_rows_beside_it(loops):
    torch.manual_seed(0)
    product, x = Projection([weights(64, 100)]), torch.randn(8, 100)
    alone = torch.cat([product(row[None]) for row in x])
    assert torch.equal(product(x), alone)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_result_does_not_depend_on_the_number_of_threads(loops, threads):
    torch.manual_seed(0)
    product, x, before = Projection([weights(530, 128), weights(7, 128)]), torch.randn(4, 128), torch.get_num_threads()
    right = product(x)
    try:
        torch.set_num_threads(threads)
        assert torch.equal(product(x), right)
    finally:
        torch.set_num_threads(before)


def test_what_compiled_loops_do_not_serve_takes_the_plain_form(loops, monkeypatch):
    product = Projection([weights(5, 8)])
    for x in (torch.randn(MOST + 1, 8), torch.randn(3, 8).double()):
        if x.dtype == torch.float64:
            product = Projection([Weights(torch.randn(5, 8, dtype=torch.float64))])
        assert torch.equal(product(x), product.plain(x))
    with torch.enable_grad():
        x = torch.randn(2, 8, requires_grad=True)
        Projection([weights(5, 8)])(x).sum().backward()
    assert x.grad is not None


def test_codes_of_int8_reach_127_in_every_row_and_are_off_by_half_a_step_at_most():
    torch.manual_seed(0)
    weight = torch.randn(9, 33) * torch.logspace(-3, 3, 9)[:, None]
    weight[4] = 0
    held = quantised(weight)
    assert held.scale is not None and held.weight.dtype == torch.int8
    assert held.weight.abs().amax(-1).tolist() == [127, 127, 127, 127, 0, 127, 127, 127, 127]
    assert bool(((held.dense() - weight).abs() <= held.scale[:, None] * 0.5001).all())
    assert torch.equal(quantised(held.dense(), held.scale).weight, held.weight)
