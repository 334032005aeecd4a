"""The oracle is exact before it judges: float64 throughout."""

from __future__ import annotations

import pytest
import torch

from tests.parity import oracle


@pytest.mark.parametrize(
    "request_narrow",
    [
        lambda x: x.float(),
        lambda x: x.to(torch.float32),
        lambda x: x.to(dtype=torch.float32),
        lambda x: x.type(torch.float32),
        lambda x: torch.softmax(x, -1, dtype=torch.float32),
        lambda x: torch.nn.functional.softmax(x, dim=-1, dtype=torch.float32),
        lambda x: torch.arange(0, 8, 2, dtype=torch.float),
        lambda x: torch.arange(0, 8, 2, dtype=torch.int64).to(device="cpu", dtype=torch.float),
        lambda x: torch.zeros(3, dtype=torch.float32),
        lambda x: torch.full([], 2.0),
        lambda x: torch.tensor(3, dtype=torch.float),
        lambda x: 1.0 - torch.ones(3, dtype=torch.long),
        lambda x: torch.ones(3, dtype=torch.get_default_dtype()),
    ],
)
def test_every_request_for_float32_is_answered_in_float64(request_narrow):
    with oracle.exact():
        assert request_narrow(torch.ones(2, 3)).dtype == torch.float64
    assert torch.get_default_dtype() == torch.float32


def test_a_float32_tensor_that_slips_through_stops_the_run():
    narrow = torch.ones(3)
    with oracle.exact(), pytest.raises(AssertionError, match="float32"):
        narrow + 1


def test_a_float32_tensor_in_the_backward_pass_stops_the_run():
    class Narrow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return torch.ops.aten._to_copy(grad, dtype=torch.float16).to(torch.float64)

    with oracle.exact(watch=True), pytest.raises(AssertionError, match="float16"):
        Narrow.apply(torch.ones(3, requires_grad=True)).sum().backward()
