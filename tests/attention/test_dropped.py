"""Attention with dropped weights: its gradients are right, with nothing dropped it is sdpa's, texts are apart."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from variorum.attention.dropped import Dropping, attend, attend_texts

LENGTHS = (5, 3, 3, 1)


def heads(length: int, count: int, channels: int, rows: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(count * channels)
    return torch.randn(rows, count, length, channels, generator=generator, dtype=torch.float64).requires_grad_()


def given(length: int, rows: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    return heads(length, 4, 3, rows), heads(length, 2, 3, rows), heads(length, 2, 6, rows)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_what_was_computed(causal: bool) -> None:
    how = Dropping(scale=0.7, rate=0.3, causal=causal)

    def seeded(run, *tensors):
        torch.manual_seed(3)
        return run(*tensors)

    assert torch.autograd.gradcheck(lambda *x: seeded(lambda *y: attend(*y, how), *x), given(5))
    texts = given(sum(LENGTHS), rows=1)
    assert torch.autograd.gradcheck(lambda *x: seeded(lambda *y: attend_texts(*y, LENGTHS, how), *x), texts)


@pytest.mark.parametrize("causal", [False, True])
def test_with_nothing_dropped_it_is_plain_attention(causal: bool) -> None:
    how, (q, k, v) = Dropping(scale=0.7, rate=0.0, causal=causal), given(5)
    right = F.scaled_dot_product_attention(q, k, v, scale=0.7, is_causal=causal, enable_gqa=True)
    torch.testing.assert_close(attend(q, k, v, how), right)
    texts = given(sum(LENGTHS), rows=1)
    made = attend_texts(*texts, LENGTHS, how).split(list(LENGTHS), 2)
    for one, *parts in zip(made, *(x.split(list(LENGTHS), 2) for x in texts), strict=True):
        torch.testing.assert_close(one, F.scaled_dot_product_attention(*parts, scale=0.7, is_causal=causal,
                                                                       enable_gqa=True))  # fmt: skip


def test_the_share_of_weights_that_falls_out_is_the_rate() -> None:
    ones = torch.ones(64, 1, 128, 1)
    zeros = torch.zeros(64, 1, 128, 1)
    out = attend(zeros, zeros, ones, Dropping(scale=1.0, rate=0.1, causal=False))
    assert float(out.mean()) == pytest.approx(1.0, abs=0.002)
    assert float(out.std()) == pytest.approx((0.1 / 0.9 / 128) ** 0.5, rel=0.05)
