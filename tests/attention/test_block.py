"""Where a block's norms stand around its sublayers, in every family."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.tiny_specs import gap, made, words
from variorum.attention.block import Block
from variorum.attention.masks import Mask
from variorum.parts.trace import Trace
from variorum.parts.where import Where


def around(block: Block, x: Tensor, *, causal: bool) -> tuple[Tensor, list]:
    """The block's output, and its two sublayers as plain functions."""
    order = torch.arange(x.shape[1])[None]
    where = Where(order, order, order, order, padded=False)
    sublayers = [
        lambda h: block.attention(h, h, where, where, Mask(causal=causal))[0],
        lambda h: block.feedforward(h, Trace()),
    ]
    return block(x, where, where, Trace()), sublayers


def drawn() -> Tensor:
    return torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.mechanism("N3")
@pytest.mark.parametrize("name", ["bert", "albert"])
def test_post_norm_norms_the_sum_of_the_stream_and_the_branch(name):
    block, x = made(name).encoder.layers[0], drawn()
    out, (attend, transform) = around(block, x, causal=False)
    for sublayer, norms in ((attend, block.attention_norms), (transform, block.feedforward_norms)):
        x = norms["join"](x + sublayer(x))
    assert gap(out, x) < 1e-12


@pytest.mark.mechanism("N4")
@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma"])
def test_pre_norm_leaves_the_stream_itself_untouched_and_ends_in_one_norm(name):
    model = made(name)
    block, x = model.decoder.layers[0], drawn()
    out, (attend, transform) = around(block, x, causal=True)
    for sublayer, norms in ((attend, block.attention_norms), (transform, block.feedforward_norms)):
        x = x + sublayer(norms["before"](x))
    assert gap(out, x) < 1e-12
    raw: list[Tensor] = []
    model.decoder.layers[-1].register_forward_hook(lambda module, args, out: raw.append(out))
    last = model(words(2, 5)).last_hidden_state
    assert gap(last, model.decoder.final_norm(raw[0])) == 0


@pytest.mark.mechanism("N4")
def test_modernberts_first_layer_takes_the_normed_embedding_as_it_is():
    first, second = made("modernbert").encoder.layers[:2]
    assert not first.attention_norms and "before" in second.attention_norms


@pytest.mark.mechanism("N6")
@pytest.mark.parametrize("name", ["gemma-2", "gemma-3"])
def test_a_sandwich_norms_each_branch_before_and_after(name):
    block, x = made(name).decoder.layers[5], drawn()
    out, (attend, transform) = around(block, x, causal=True)
    for sublayer, norms in ((attend, block.attention_norms), (transform, block.feedforward_norms)):
        x = x + norms["after"](sublayer(norms["before"](x)))
    assert gap(out, x) < 1e-12
