"""Dropout and softmax with dropout: the loops and their plain form agree, and keep the share that they are told."""

from __future__ import annotations

import pytest
import torch

from variorum.kernels import train
from variorum.kernels.train import Drops, drop, kept, soften, unsoften

DROPS = Drops(0.1, 0x123456789ABCDEF0)


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("size", [1, 15, 16, 4097])
def test_what_is_kept_follows_from_seed_and_place(size: int) -> None:
    x, rest = noise(size), noise(size, seed=1)
    torch.testing.assert_close(drop(x, DROPS, rest), rest + x * kept(x, DROPS), rtol=0, atol=1e-6)
    assert torch.equal(drop(x, DROPS) == 0, drop(x.double(), DROPS) == 0)


def test_a_tenth_falls_out_and_the_mean_stays() -> None:
    left = drop(torch.ones(1_000_003), DROPS)
    gone = left == 0
    assert float(gone.double().mean()) == pytest.approx(0.1, abs=0.0015)
    assert float(left.double().mean()) == pytest.approx(1.0, abs=0.0015)
    neighbours = float((gone[1:] & gone[:-1]).double().mean())
    assert neighbours == pytest.approx(0.01, abs=0.0005)


def test_two_seeds_and_two_parts_have_nothing_in_common() -> None:
    one = torch.ones(200_000)
    for other in (Drops(0.5, DROPS.seed + 1), Drops(0.5, DROPS.seed ^ (1 << 40)), Drops(0.5, DROPS.seed).next(1)):
        both = (drop(one, Drops(0.5, DROPS.seed)) > 0) & (drop(one, other) > 0)
        assert float(both.double().mean()) == pytest.approx(0.25, abs=0.005)


@pytest.mark.parametrize("queries", [0, 11])
def test_loops_and_plain_form_agree_forward_and_back(queries: int) -> None:
    scores, grad = 3 * noise(4, 22 if queries else 11, 19), noise(4, 22 if queries else 11, 19, seed=2)
    plain, plain_grad = scores.double(), grad.double()
    left, right = soften(scores, 0.3, DROPS, queries), soften(plain, 0.3, DROPS, queries)
    torch.testing.assert_close(left.double(), right, rtol=0, atol=1e-6)
    torch.testing.assert_close(scores.sum(-1), torch.ones_like(scores[..., 0]))
    unsoften(scores, grad, 0.3, DROPS, queries)
    unsoften(plain, plain_grad, 0.3, DROPS, queries)
    torch.testing.assert_close(grad.double(), plain_grad, rtol=0, atol=1e-6)
    if queries:
        assert not scores[:, 0, 9:].any()


def test_without_a_compiler_the_plain_form_does(monkeypatch: pytest.MonkeyPatch) -> None:
    x = noise(3, 50)
    right = drop(x, DROPS)
    monkeypatch.setattr(train, "library", lambda name: None)
    torch.testing.assert_close(drop(x, DROPS), right)
