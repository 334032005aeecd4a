"""Compiled norms, rotation and attention are the plain ones."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from variorum.kernels.heads import Heads, Norm, Places, Turns


def close(ours: Tensor, plain: Tensor, error: float = 2e-6) -> bool:
    return ours.shape == plain.shape and bool((ours - plain).abs().max() <= error * plain.abs().max())


def norm(width: int, *, centred: bool) -> Norm:
    return Norm(torch.randn(width), torch.randn(width) if centred else None, 1e-5, centred, 0.0 if centred else 1.0)


@pytest.mark.parametrize("centred", [True, False], ids=["layer", "rms"])
@pytest.mark.parametrize("width", [8, 33, 576])
def test_norms(loops, centred, width):
    torch.manual_seed(width)
    one, x = norm(width, centred=centred), torch.randn(2, 7, width) * 3 + 1
    assert close(one.run(x), one.plain(x))


@pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "pairs"])
@pytest.mark.parametrize("rotated", [0, 8, 20])
@pytest.mark.parametrize("rows", [1, 3], ids=["alike", "apart"])
def test_heads_are_clipped_normed_and_turned(loops, interleaved, rotated, rows):
    torch.manual_seed(rotated)
    heads = Heads(
        4, 2, 20, rotated, interleaved, query_norm=norm(20, centred=False), key_norm=norm(20, centred=True), clip=1.5
    )
    angles = torch.rand(rows, 1, 5, rotated // 2)
    turns = Turns((angles.cos(), angles.sin()) if rotated else None)
    every = torch.randn(3, 5, 8 * 20)
    plain = every.clone()
    heads.turn_plain(plain, turns)
    heads.turn(every, turns)
    assert close(every, plain)


def places(rows: int, queries: int, keys: int, *, alike: bool, bias: bool) -> Places:
    """The last queries of rows that hold all keys, or, where they are not alike, of rows with holes and padding."""
    order = torch.arange(keys)[None] if alike else torch.stack([torch.randperm(keys) for _ in range(rows)])
    asked = torch.arange(keys - queries, keys)[None].clone()
    if not alike:
        order[:, ::3] = -1
        asked = asked.repeat(rows, 1)
        asked[0, 0] = -1
    steps = torch.randn(1 if alike else rows, 6, keys, queries).transpose(2, 3)
    return Places(rows, asked, order, steps if bias else None)


@pytest.mark.parametrize(("alike", "bias"), list(itertools.product([True, False], repeat=2)))
@pytest.mark.parametrize(
    "settings",
    [{}, {"window": 7}, {"softcap": 3.0}, {"causal": False}, {"kv_heads": 1}, {"kv_heads": 6}, {"channels": 20}],
    ids=str,
)
def test_attention_over_what_is_held(loops, settings, alike, bias):
    torch.manual_seed(0)
    heads = Heads(**{"heads": 6, "kv_heads": 2, "channels": 16, "scale": 0.3, **settings})
    where = places(3, 4, 300, alike=alike, bias=bias)
    q = torch.randn(3, 4, 6, heads.channels).transpose(1, 2)
    k, v = torch.randn(2, 3, heads.kv_heads, 512, heads.channels)[:, :, :, :300]
    assert close(heads.attend(q, k, v, where), heads.attend_plain(q, k, v, where))


def test_a_query_that_sees_nothing_gives_zero(loops):
    heads = Heads(2, 2, 16)
    where = Places(1, torch.tensor([[0]]), torch.tensor([[3, 4, -1]]))
    q, kv = torch.randn(1, 2, 1, 16), torch.randn(1, 2, 3, 16)
    assert heads.attend(q, kv, kv, where).abs().max() == 0


def test_scores_far_from_zero_do_not_overflow(loops):
    heads = Heads(1, 1, 16, scale=1.0)
    where = Places(1, torch.tensor([[400]]), torch.arange(400)[None])
    q, k, v = torch.full((1, 1, 1, 16), 30.0), torch.randn(1, 1, 400, 16) * 30, torch.randn(1, 1, 400, 16)
    ours = heads.attend(q, k, v, where)
    assert close(ours, heads.attend_plain(q, k, v, where)) and math.isfinite(float(ours.sum()))
