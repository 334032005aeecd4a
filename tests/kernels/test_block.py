"""A compiled block is its parts one after the other, in every layout, and keeps keys and values where it is told."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.test_heads import norm
from tests.kernels.test_products import weights
from variorum.kernels.block import Around, Block
from variorum.kernels.heads import Heads, Places, Turns
from variorum.kernels.products import Gated, Projection

WIDTH, D = 48, 16
LAYOUTS = {
    "pre": ({"before"}, {"before"}, {}),
    "post": ({"join"}, {"join"}, {}),
    "sandwich": ({"before", "after"}, {"before", "after"}, {}),
    "parallel": ({"before"}, {"before"}, {"parallel": True}),
    "shared": ({"before"}, set(), {"parallel": True, "shared": True}),
    "normed": ({"before"}, {"before"}, {"keeps_normed": True}),
}


def around(places: set[str]) -> Around:
    return Around(**{place: norm(WIDTH, centred=False) for place in sorted(places)})


@pytest.mark.parametrize("slots", [[[9], [9], [9]], [[9], [4], [-1]]], ids=["even", "uneven"])
@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_block_in_every_layout(loops, layout, gated, slots):
    torch.manual_seed(0)
    attends, feeds, rest = LAYOUTS[layout]
    heads = Heads(4, 2, D, rotated=D, scale=0.25)
    up = weights(70, WIDTH)
    block = Block(
        width=WIDTH, heads=heads, out=Projection([weights(WIDTH, 4 * D)]), down=Projection([weights(WIDTH, 70)]),
        projected=Projection([weights(4 * D, WIDTH), weights(2 * D, WIDTH), weights(2 * D, WIDTH, bias=False)]),
        inner=Gated(weights(70, WIDTH, int8=True), weights(70, WIDTH, int8=True), "silu") if gated
        else Projection([up], "gelu"),
        attends=around(attends), feeds=around(feeds), **rest,
    )  # fmt: skip
    assert block.compiled
    angles = torch.rand(1, 1, 1, D // 2)
    at = torch.tensor(slots)
    order = torch.arange(10)[None].repeat(3, 1)
    places = Places(3, at, order, slots=at)
    x, (k, v) = torch.randn(3, 1, WIDTH), torch.randn(2, 3, 2, 32, D)[:, :, :, :10]
    plain_k, plain_v, turns = k.clone(), v.clone(), Turns((angles.cos(), angles.sin()))
    right = block.run_plain(x.clone(), turns, places, plain_k, plain_v)
    ours = block.run(x, turns, places, k, v)
    assert float((ours - right).abs().max()) <= 5e-6 * float(right.abs().max())
    for held, plain in ((k, plain_k), (v, plain_v)):
        assert float((held - plain).abs().max()) <= 2e-6 * float(plain.abs().max())
