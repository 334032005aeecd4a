"""An encoder's block in one call is its parts one after the other, in every layout, for any few rows."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from variorum.kernels.encode import Heads, Norm, Placement, Texts
from variorum.kernels.encode_block import FEW, Block, Product

WIDTH, D, INNER = 40, 24, 70
LAYOUTS = {
    "pre": ({"attends_before", "feeds_before"}, False),
    "post": ({"attends_join", "feeds_join"}, False),
    "sandwich": ({"attends_before", "attends_after", "feeds_before", "feeds_after"}, False),
    "normed": ({"attends_before", "feeds_before"}, True),
    "bare": (set(), False),
}


def block(places, keeps_normed, *, gated, centred=True, window=None):
    def norm():
        shift, unit = (torch.rand(WIDTH), 0.0) if centred else (None, 1.0)
        return Norm(torch.rand(WIDTH), shift, 1e-5, centred, unit=unit)

    def product(width, *outs):
        return Product([nn.Linear(width, out, bias=i != 1) for i, out in enumerate(outs)])

    return Block(
        heads=Heads(4, 2, 0.2, window), project=product(WIDTH, 4 * D, 2 * D, 2 * D), out=product(4 * D, WIDTH),
        gate=product(WIDTH, INNER) if gated else None, up=product(WIDTH, INNER), down=product(INNER, WIDTH),
        activation="gelu", norms={place: norm() for place in sorted(places)}, keeps_normed=keeps_normed,
    )  # fmt: skip


@torch.inference_mode()
@pytest.mark.parametrize("gated", [True, False], ids=["gated", "plain"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lengths", [(1,), (5, 2), (16,), (13, 40, 7), (FEW,)], ids=str)
def test_a_block_in_every_layout(loops, layout, gated, lengths):
    torch.manual_seed(0)
    made = block(*LAYOUTS[layout], gated=gated, centred=layout != "pre", window=3 if layout == "normed" else None)
    x, texts = torch.randn(sum(lengths), WIDTH), Texts(lengths)
    angles = torch.rand(len(x), D // 2)
    for placement in (
        Placement(),
        Placement(turn=torch.stack((angles.cos(), angles.sin()), 1)),
        Placement(near=torch.randn(4, 2 * max(lengths) - 1)),
    ):
        right = made.run_plain(x, texts, placement)
        assert float((made.run(x, texts, placement) - right).abs().max()) <= 1e-5 * float(right.abs().max())


@torch.inference_mode()
def test_a_copy_holds_weights_of_its_own(loops):
    torch.manual_seed(0)
    made = block(*LAYOUTS["post"], gated=False)
    x, texts = torch.randn(7, WIDTH), Texts((7,))
    before, copied = made.run(x, texts, Placement()), copy.deepcopy(made)
    made.up.panels.zero_()
    assert torch.equal(copied.run(x, texts, Placement()), before)
    assert not torch.equal(made.run(x, texts, Placement()), before)
