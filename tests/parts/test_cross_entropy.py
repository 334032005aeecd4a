"""The loss over a vocabulary without its logits is the usual one, gradients too, whatever is scored at a time."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from variorum.parts import cross_entropy
from variorum.parts.cross_entropy import Judging, linear_cross_entropy

ROWS, WIDTH, VOCAB = 13, 7, 29


def tensors(dtype: torch.dtype = torch.float64) -> tuple[list[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((ROWS, WIDTH), (VOCAB, WIDTH), (VOCAB,))
    made = [torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]
    return made, torch.randint(0, VOCAB, (ROWS,), generator=generator)


def usual(tensors: list[torch.Tensor], targets: torch.Tensor, judging: Judging) -> torch.Tensor:
    logits, cap = F.linear(*tensors), judging.softcap
    logits = logits if cap is None else cap * (logits / cap).tanh()
    return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=judging.smoothing)


@pytest.mark.parametrize("cells", [1, 100, 1 << 23])
@pytest.mark.parametrize("judging", [Judging(), Judging(softcap=3.0), Judging(softcap=3.0, smoothing=0.1)])
def test_loss_and_gradients_are_those_of_the_logits(judging, cells, monkeypatch):
    monkeypatch.setattr(cross_entropy, "CELLS", cells)
    given, targets = tensors()
    right = usual(given, targets, judging)
    wanted = torch.autograd.grad(0.3 * right, given)
    loss = linear_cross_entropy(*given, targets, judging)
    assert loss.item() == pytest.approx(right.item(), rel=1e-13)
    for mine, gradient in zip(torch.autograd.grad(0.3 * loss, given), wanted, strict=True):
        torch.testing.assert_close(mine, gradient, rtol=0, atol=1e-13)


def test_without_a_bias_or_gradients_only_the_loss_is_made():
    (x, weight, _), targets = tensors()
    with torch.no_grad():
        loss = linear_cross_entropy(x, weight, None, targets)
    torch.testing.assert_close(loss, F.cross_entropy(x @ weight.T, targets, reduction="sum").detach())


def test_no_targets_at_all_cost_nothing():
    (x, weight, bias), targets = tensors()
    loss = linear_cross_entropy(x[:0], weight, bias, targets[:0])
    loss.backward()
    assert loss.item() == 0
    assert not weight.grad.any()


def test_under_autocast_products_are_half_and_the_loss_is_not():
    given, targets = tensors(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear_cross_entropy(*given, targets)
    loss.backward()
    assert loss.dtype == torch.float32
    assert all(one.grad.dtype == torch.float32 for one in given)
    assert loss.item() == pytest.approx(usual(given, targets, Judging()).item(), rel=2e-2)
