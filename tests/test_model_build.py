"""A fresh model has exactly the tensors its spec lists, and each one's value depends on nothing but its own name."""

from __future__ import annotations

import pytest
import torch
import transformers

from tests.spec.shrunk import ALL
from variorum.builder import build, empty
from variorum.errors import NotFound
from variorum.spec.inventory import constants, tensors
from variorum.spec.model import Model as Spec


def values(spec: Spec, head: str | list[str] | None = None, seed: int = 0) -> dict[str, torch.Tensor]:
    return {name: p.detach() for name, p in build(spec, head=head, seed=seed).named_parameters()}


@pytest.mark.mechanism("C1")
@pytest.mark.parametrize("name", ALL)
def test_a_model_with_any_head_has_the_tensors_of_the_inventory_and_no_other(name):
    spec = ALL[name]
    for head in (None, *spec.architecture.heads):
        heads = [head] if head else []
        listed = tensors(spec.architecture, heads)
        for model in (build(spec, head=head), empty(spec, heads)):
            assert {key: tuple(p.shape) for key, p in model.named_parameters()} == dict(listed)
            assert [key for key, _ in model.named_tensors()] == list(listed)
            fixed = constants(spec.architecture, heads)
            assert {key: tuple(value.shape) for key, value in model.named_buffers()} == fixed
            assert [key for key, _ in model.named_constants()] == list(fixed)
    every = list(spec.architecture.heads)
    both = build(spec, head=every)
    assert {key: tuple(p.shape) for key, p in both.named_parameters()} == dict(tensors(spec.architecture, every))


@pytest.mark.mechanism("R7")
@pytest.mark.parametrize("name", ["bert", "t5", "mixtral", "deepseek-v3", "deberta-v3", "xlnet"])
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(name):
    torch.manual_seed(1)
    first = values(ALL[name], seed=3)
    torch.manual_seed(2)  # the global generator has no say
    again, other = values(ALL[name], seed=3), values(ALL[name], seed=4)
    assert all(torch.equal(first[key], again[key]) for key in first)
    drawn = [key for key in first if len(first[key].unique()) > 1]
    assert len(drawn) > 20
    assert not any(torch.equal(first[key], other[key]) for key in drawn)


@pytest.mark.mechanism("R7")
@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_a_head_or_a_layer_more_changes_no_other_initial_value(name):
    spec = ALL[name]
    bare = values(spec)
    for more in (values(spec, list(spec.architecture.heads)), values(spec, next(iter(spec.architecture.heads)))):
        alike = bare.keys() - {"pooler.dense.weight", "pooler.dense.bias"}  # only some of BERT's heads read it
        assert alike <= more.keys()
        assert all(torch.equal(bare[key], more[key]) for key in bare.keys() & more.keys())
    stack = next(iter(spec.architecture.stacks))
    deeper = values(spec.set({f"architecture.{stack}.depth": 7}))
    same_scale = [key for key in bare if name != "gpt2" or not key.endswith(("out.weight", "down.weight"))]
    assert all(torch.equal(bare[key], deeper[key]) for key in same_scale)
    # GPT-2 divides what feeds the residual stream by the root of twice the depth: same draw, other scale.
    for key in bare.keys() - set(same_scale):
        assert torch.allclose(bare[key] * (6 / 7) ** 0.5, deeper[key])


@pytest.mark.mechanism("R7")
def test_norms_start_neutral_biases_at_zero_and_weights_at_the_papers_spread():
    bert, gemma, t5 = (values(ALL[name]) for name in ("bert", "gemma", "t5"))
    assert (bert["encoder.layers.0.attention_norms.join.weight"] == 1).all()
    assert (gemma["decoder.layers.0.attention_norms.before.weight"] == 0).all()  # Gemma stores gain - 1
    assert (bert["encoder.layers.0.attention.query.bias"] == 0).all()
    assert float(bert["encoder.input.table.weight"].std()) == pytest.approx(0.02, rel=0.05)
    # T5 does not scale its scores, so its queries start small; its table does not, and is scaled where it scores.
    head_dim = ALL["t5"].architecture.encoder.block.attention.head_dim
    assert float(t5["encoder.layers.0.attention.query.weight"].std()) == pytest.approx((32 * head_dim) ** -0.5, rel=0.1)
    assert float(t5["encoder.layers.0.attention.key.weight"].std()) == pytest.approx(32**-0.5, rel=0.1)
    assert float(t5["encoder.input.table.weight"].std()) == pytest.approx(1.0, rel=0.05)


@pytest.mark.mechanism("R7")
@pytest.mark.parametrize("name", ["t5", "t5-v1_1", "mt5"])
def test_t5_starts_as_wide_as_transformers_starts_it(name):
    """But for untied heads: the released training code draws those by fan-in, transformers as wide as a table."""
    spec = ALL[name]
    encoder = spec.architecture.encoder
    gated = name != "t5"
    theirs = transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=encoder.input.vocab, d_model=32, d_kv=encoder.block.attention.head_dim, num_layers=2,
        num_heads=encoder.block.attention.heads, d_ff=encoder.block.feedforward.width,
        feed_forward_proj="gated-gelu" if gated else "relu", tie_word_embeddings=not gated,
    ))  # fmt: skip
    ours, layer = values(spec, "seq2seq_lm"), "encoder.layers.0"
    block = theirs.encoder.block[0].layer
    dense, attention = block[1].DenseReluDense, block[0].SelfAttention
    for mine, other in {
        "encoder.input.table": theirs.shared, f"{layer}.attention.query": attention.q,
        f"{layer}.attention.key": attention.k, f"{layer}.attention.value": attention.v,
        f"{layer}.attention.out": attention.o, f"{layer}.feedforward.down": dense.wo,
        f"{layer}.feedforward.up": dense.wi_1 if gated else dense.wi,
    }.items():  # fmt: skip
        assert float(ours[f"{mine}.weight"].std()) == pytest.approx(float(other.weight.detach().std()), rel=0.15), mine


def test_a_head_that_a_model_does_not_have_is_refused_with_the_nearest_name():
    with pytest.raises(NotFound, match=r"bert has no head 'masked_ml'.*masked_lm"):
        build(ALL["bert"], head="masked_ml")


def test_a_fresh_model_is_in_eval_mode_and_reads_the_same_twice():
    model, ids = build(ALL["bert"]), torch.randint(6, 50, (2, 9))
    assert not model.training
    assert torch.equal(model(ids).last_hidden_state, model(ids).last_hidden_state)
