"""A window over a long text, or over what continues one, is cut into tiles that see what the definition sees."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.tiny_specs import gap
from variorum.attention import bands
from variorum.attention.backends import BACKENDS
from variorum.attention.masks import Mask
from variorum.attention.scores import Scores
from variorum.parts.where import Where

QUERIES = 333  # the last tile is short


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def after(held: list[int]) -> Where:
    """Where ``QUERIES`` tokens stand that follow those which a cache holds, in the order of its slots; -1 is empty."""
    before = torch.tensor([held], dtype=torch.long)
    new = torch.arange(QUERIES)[None] + (max(held, default=-1) + 1)
    keys = torch.cat((before, new), 1)
    return Where(new, keys, new, keys, padded=-1 in held)


HELD = {
    "nothing": [],
    "less than a window": [0, 1, 2],
    "in order": list(range(40)),
    "a ring": [48, 49, 50, 43, 44, 45, 46, 47],
    "a ring that is not full": [0, 1, 2, -1, -1, -1, -1, -1],
    "empty places first": [-1, -1, 5, 6, 7],
    "more than a window, shuffled": [7, 3, 0, 9, 1, 8, 2, 6, 4, 5],
}


@pytest.mark.mechanism("A9")
@pytest.mark.case("V012")
@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("window", [1, 5, 8])
def test_what_continues_a_text_is_cut_wherever_the_cache_keeps_the_keys_before(held, window):
    where, mask = after(HELD[held]), Mask(causal=True, window=window)
    keys = where.k_order.shape[-1]
    q, k, v = drawn(1, 4, QUERIES, 3), drawn(1, 2, keys, 3, seed=1), drawn(1, 2, keys, 3, seed=2)
    right, _ = BACKENDS["eager"](q, k, v, Scores(scale=1.0), mask, where)
    tiles, near = bands.cut(where, mask, 1)
    assert bands.pays(mask, where) and tiles.count > 3
    ours, _ = BACKENDS["sdpa"](tiles.queries(q), tiles.keys(k), tiles.keys(v), Scores(scale=1.0), mask, near)
    assert gap(tiles.joined(ours), right) < 1e-13


@pytest.mark.mechanism("A9")
@pytest.mark.parametrize("held", [[0, 1, 2, 0, 1, 2], [9, 10, 11, 400]], ids=["two texts", "later ones"])
def test_keys_that_are_not_of_one_text_before_the_queries_are_looked_at_together(held):
    keys = torch.cat((torch.tensor([held]), torch.arange(12, 12 + QUERIES)[None]), 1)
    new, mask = keys[:, len(held) :], Mask(causal=True, window=5)
    where = Where(new, keys, new, keys)
    q, k = drawn(1, 2, QUERIES, 3), drawn(1, 2, keys.shape[-1], 3, seed=1)
    tiles, near = bands.cut(where, mask, 1)
    assert tiles.count == 1
    ours, _ = BACKENDS["sdpa"](tiles.queries(q), tiles.keys(k), tiles.keys(k), Scores(scale=1.0), mask, near)
    assert gap(tiles.joined(ours), BACKENDS["eager"](q, k, k, Scores(scale=1.0), mask, where)[0]) < 1e-13


def test_few_tokens_and_wide_windows_are_not_worth_cutting() -> None:
    order = torch.arange(2000)[None]
    alone = Where(order, order, order, order, padded=False)
    assert bands.pays(Mask(causal=True, window=64), alone) and not bands.pays(Mask(causal=True), alone)
    assert not bands.pays(Mask(causal=True, window=1500), alone)
    last = {count: Where(order[:, -count:], order, order[:, -count:], order, padded=False) for count in (1, 200, 1000)}
    assert [bands.pays(Mask(causal=True, window=64), last[count]) for count in (1, 200, 1000)] == [False, False, True]
    assert not bands.pays(Mask(causal=False, window=64), last[1000])
