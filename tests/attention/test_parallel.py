"""Sublayers side by side, one norm for both, a normed residual; and projections held within a limit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.attention.test_block import around, drawn
from tests.tiny_specs import gap, made, tiny, words
from variorum.attention.attention import Attention, split_heads
from variorum.attention.block import Block
from variorum.attention.masks import Mask
from variorum.family import find
from variorum.parts.positions import LayerPositions
from variorum.parts.trace import Trace
from variorum.parts.where import Where
from variorum.spec.architecture import parallel, pre
from variorum.spec.attention import Attention as Spec
from variorum.spec.inventory import tensors
from variorum.spec.norms import LayerNorm
from variorum.spec.size import size

LAYOUT = "architecture.decoder.block.layout"
NORM = LayerNorm(eps=1e-5)


@pytest.mark.mechanism("N5")
@pytest.mark.parametrize("name", ["gpt-neox", "pythia", "falcon-grouped"])
def test_attention_and_feedforward_read_the_same_stream_through_a_norm_each(name):
    block, x = made(name).decoder.layers[0], drawn()
    out, (attend, transform) = around(block, x, causal=True)
    first, second = block.attention_norms["before"](x), block.feedforward_norms["before"](x)
    assert gap(out, x + attend(first) + transform(second)) < 1e-12
    assert gap(first, second) > 1e-2


@pytest.mark.mechanism("N5")
@pytest.mark.parametrize("name", ["falcon", "palm"])
def test_one_norm_serves_both_and_is_computed_once(name):
    block, x, calls = made(name).decoder.layers[0], drawn(), []
    block.attention_norms["before"].register_forward_hook(lambda *_: calls.append(1))
    out, (attend, transform) = around(block, x, causal=True)
    assert len(calls) == 1
    normed = block.attention_norms["before"](x)
    assert gap(out, x + attend(normed) + transform(normed)) < 1e-12
    assert not block.feedforward_norms


@pytest.mark.mechanism("N5")
def test_a_parallel_block_is_another_model_of_the_same_tensors():
    beside, after = tiny("gpt-neox"), tiny("gpt-neox", {f"{LAYOUT}.order": "serial"})
    assert tensors(beside.architecture) == tensors(after.architecture)
    assert after.architecture.decoder.block.layout == pre(NORM)
    states = [made(spec)(words(2, 7)).last_hidden_state for spec in (beside, after)]
    assert gap(*states) > 1e-2


@pytest.mark.mechanism("N5")
def test_a_shared_norm_saves_one_norm_a_layer():
    two, one = (find("falcon-7b").set({LAYOUT: parallel(NORM, shared=shared)}) for shared in (False, True))
    assert size(two, context=1).parameters - size(one, context=1).parameters == 32 * 2 * 4544


@pytest.mark.mechanism("N5", "A5")
@pytest.mark.parametrize("shared", [False, True])
def test_cross_attention_can_stand_beside_the_others_too(shared):
    stacks = ("encoder", "decoder")
    spec = tiny("t5", {f"architecture.{name}.block.layout": parallel(NORM, shared=shared) for name in stacks})
    model = made(spec)
    block, x, encoded = model.decoder.layers[0], drawn(), drawn() + 1
    out, parts = block_with_source(block, x, encoded)
    reads = [block.attention_norms["before"](x)]
    for norms in (block.cross_norms, block.feedforward_norms):
        reads.append(reads[0] if shared else norms["before"](x))
    assert gap(out, x + sum(part(read) for part, read in zip(parts, reads, strict=True))) < 1e-12


def block_with_source(block: Block, x: Tensor, encoded: Tensor) -> tuple[Tensor, list]:
    """The block's output over an encoder's, and its three sublayers as plain functions."""
    order = torch.arange(x.shape[1])[None]

    def where() -> Where:
        return Where(order, order, order, order, padded=False)

    out = block(x, where(), where(), Trace(), encoded=encoded, cross_where=where())
    return out, [
        lambda h: block.attention(h, h, where(), where(), Mask(causal=True))[0],
        lambda h: block.cross.cross(h, encoded, where(), slots=None, backend="auto", maps=False)[0],
        lambda h: block.feedforward(h, Trace()),
    ]


@pytest.mark.mechanism("N4")
def test_blooms_flag_carries_on_what_the_norm_made():
    block, x = made(tiny("bloom", {f"{LAYOUT}.residual": "normed"})).decoder.layers[0], drawn()
    out, (attend, transform) = around(block, x, causal=True)
    for sublayer, norms in ((attend, block.attention_norms), (transform, block.feedforward_norms)):
        normed = norms["before"](x)
        x = normed + sublayer(normed)
    assert gap(out, x) < 1e-12


@pytest.mark.mechanism("N8")
def test_bloom_norms_its_embeddings_and_gpt2_does_not():
    for name, normed in (("bloom", True), ("gpt2", False), ("mpt", False)):
        model, ids = made(name), words(2, 5)
        first = model(ids, output_hidden_states=True).hidden_states[0]
        looked_up = model.decoder.input.table(ids)
        if name == "gpt2":
            looked_up = looked_up + model.decoder.input.positions(torch.arange(5))
        assert gap(first, model.decoder.input.norm(looked_up) if normed else looked_up) < 1e-12


@pytest.mark.mechanism("N8")
@pytest.mark.parametrize(
    ("name", "biased"),
    [("bloom", {"attention", "feedforward", "norms"}), ("gpt-neox", {"attention", "feedforward", "norms"}),
     ("falcon-rw", {"attention", "feedforward", "norms"}), ("falcon", {"norms"}), ("mpt", set()), ("palm", set())],
)  # fmt: skip
def test_biases_stand_where_the_family_has_them(name, biased):
    names = [one for one in tensors(find(name).architecture) if one.endswith(".bias")]
    kinds = {"norms" if "norm" in one else one.split(".")[3] for one in names}
    assert kinds == biased


@pytest.mark.mechanism("A7")
@pytest.mark.parametrize(("name", "times"), [("palm-540b", 48), ("falcon-7b", 71), ("falcon-40b", 16), ("mpt-7b", 1)])
def test_one_key_head_shrinks_the_cache_by_the_number_of_query_heads(name, times):
    model = find(name)
    heads = model.architecture.decoder.block.attention.heads
    whole = model.set({"architecture.decoder.block.attention.kv_heads": heads})
    assert size(whole, context=1).cache_per_token == times * size(model, context=1).cache_per_token


@pytest.mark.mechanism("A7", "K3")
def test_every_query_head_of_palm_reads_the_one_key_head():
    few, many = tiny("palm"), tiny("palm", {"architecture.decoder.block.attention.kv_heads": 4})
    one, four, ids = made(few), made(many), words(2, 9)
    values = dict(one.named_tensors())
    with torch.no_grad():
        for name, value in four.named_tensors():
            repeated = name.endswith(("key.weight", "value.weight"))
            value.copy_(values[name].repeat(4, 1) if repeated else values[name])
    assert gap(one(ids).last_hidden_state, four(ids).last_hidden_state) < 1e-12


def attention(clip: float | None) -> Attention:
    part = Attention(Spec(heads=3, kv_heads=3, head_dim=4, clip=clip), 10, LayerPositions()).double()
    for index, weight in enumerate(part.parameters()):
        weight.data = torch.randn(weight.shape, generator=torch.Generator().manual_seed(index), dtype=torch.float64)
    return part


def test_a_clip_holds_queries_keys_and_values_and_nothing_else():
    x = torch.randn(2, 5, 10, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    order = torch.arange(5)[None]
    where = Where(order, order, order, order, padded=False)
    part, mask = attention(0.7), Mask(causal=True)
    q, k, v = (split_heads(one(x).clamp(-0.7, 0.7), 3) for one in (part.query, part.key, part.value))
    maps = (q @ k.mT / 2).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf).softmax(-1)
    right = part.out((maps @ v).transpose(1, 2).flatten(2))
    assert gap(part(x, x, where, where, mask)[0], right) < 1e-12
    # A limit that nothing reaches is none.
    assert gap(attention(1e3)(x, x, where, where, mask)[0], attention(None)(x, x, where, where, mask)[0]) == 0
    assert gap(right, attention(None)(x, x, where, where, mask)[0]) > 1e-2
