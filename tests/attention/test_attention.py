"""The attention layer: heads, maps, cross-attention, normed queries and keys, and DeepSeek's latent kind."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.tiny_specs import gap, made, run, tiny, words
from variorum.attention.attention import Attention
from variorum.attention.cache import Cache
from variorum.attention.masks import Mask
from variorum.parts.norms import RMSNorm
from variorum.parts.positions import LayerPositions
from variorum.parts.where import Where
from variorum.spec.attention import Attention as Spec
from variorum.spec.norms import RMSNorm as RMSNormSpec

WIDTH = 12


def line(length: int) -> Where:
    order = torch.arange(length)[None]
    return Where(order, order, order, order, padded=False)


def layer(**given: object) -> Attention:
    options = {"heads": 4, "kv_heads": 4, "head_dim": 3} | given
    module = Attention(Spec(**options), WIDTH, LayerPositions()).double()
    for index, parameter in enumerate(module.parameters()):
        parameter.data = drawn(*parameter.shape, seed=index)
    return module


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def attend(module: Attention, x: Tensor, *, maps: bool = False) -> tuple[Tensor, Tensor | None]:
    return module(x, x, line(x.shape[1]), line(x.shape[1]), Mask(causal=False), maps=maps)


@pytest.mark.mechanism("A2")
def test_heads_attend_apart_and_are_joined_by_one_projection():
    module, x = layer(), drawn(2, 7, WIDTH, seed=9)
    joined = []
    for head in range(4):
        rows = slice(3 * head, 3 * head + 3)
        q, k, v = (x @ part.weight[rows].T for part in (module.query, module.key, module.value))
        joined.append((q @ k.transpose(-1, -2) * 3**-0.5).softmax(-1) @ v)
    assert gap(attend(module, x)[0], torch.cat(joined, -1) @ module.out.weight.T) < 1e-12


@pytest.mark.mechanism("A2")
@pytest.mark.parametrize("name", ["bert", "deberta-v3", "gpt2", "gemma-2", "deepseek-v3", "t5"])
def test_each_layers_maps_are_distributions_over_the_visible_keys(name):
    mask = torch.tensor([[1] * 9, [0] * 4 + [1] * 5])
    out = run(made(name), words(2, 9), mask, output_attentions=True)
    cross = out.cross_attentions or []
    assert len(out.attentions) == 6 and len(cross) == (6 if name == "t5" else 0)
    for weights in [*cross, *([] if name == "t5" else out.attentions)]:
        assert weights.shape[:2] == (2, 4) and weights.shape[-1] == 9
        assert (weights[1, ..., :4] == 0).all()
        real = weights if name == "t5" else weights[..., 4:, :]
        assert gap(real.sum(-1), torch.ones(real.shape[:-1], dtype=torch.float64)) < 1e-12


@pytest.mark.mechanism("A5")
def test_cross_attention_asks_from_the_decoder_and_answers_from_the_encoder():
    module, x, encoded = layer(), drawn(1, 3, WIDTH, seed=7), drawn(1, 8, WIDTH, seed=8)
    order = torch.arange(8)[None]
    where = Where(order[:, :3], order, order[:, :3], order, padded=False)
    out, maps = module.cross(x, encoded, where, slots=None, backend="eager", maps=True)
    assert out.shape == (1, 3, WIDTH) and maps.shape == (1, 4, 3, 8)
    assert (maps > 0).all()  # no causal order between two texts
    q, k, v = x @ module.query.weight.T, encoded @ module.key.weight.T, encoded @ module.value.weight.T
    q, k, v = (y.unflatten(-1, (4, 3)).transpose(1, 2) for y in (q, k, v))
    mixed = (q @ k.transpose(-1, -2) * 3**-0.5).softmax(-1) @ v
    assert gap(out, mixed.transpose(1, 2).flatten(-2) @ module.out.weight.T) < 1e-12


@pytest.mark.mechanism("A5", "A6")
def test_a_t5_decoder_sees_all_of_the_source_and_none_of_its_padding():
    model = made("t5")
    ids, target = words(1, 9), words(1, 4, seed=1)
    vectors = model.encoder.input.table(ids).detach().requires_grad_()
    mask = torch.tensor([[1] * 6 + [0] * 3])
    out = model(inputs_embeds=vectors, attention_mask=mask, decoder_input_ids=target).last_hidden_state
    (grad,) = torch.autograd.grad(out[0, 0].sum(), vectors)
    assert (grad[0].abs().sum(-1) > 0).tolist() == [True] * 6 + [False] * 3


@pytest.mark.mechanism("N6")
def test_normed_queries_and_keys_make_scores_blind_to_their_length():
    module, x = layer(qk_norm=RMSNormSpec(eps=0.0)), drawn(2, 5, WIDTH, seed=9)
    _, maps = attend(module, x, maps=True)
    module.query.weight.data *= 7
    module.key.weight.data *= 0.1
    assert gap(attend(module, x, maps=True)[1], maps) < 1e-12
    assert isinstance(module.query_norm, RMSNorm) and module.query_norm.weight.shape == (3,)
    norms = [name for name, _ in made("gemma-3").named_parameters() if "layers.0.attention." in name and "norm" in name]
    assert norms == [f"decoder.layers.0.attention.{side}_norm.weight" for side in ("query", "key")]


@pytest.mark.mechanism("A14")
def test_gemma_2_caps_its_scores_and_its_logits():
    spec = tiny("gemma-2")
    assert spec.architecture.decoder.block.attention.softcap == 50.0
    model = made(spec, "causal_lm")
    with torch.no_grad():
        model.decoder.final_norm.weight *= 1e6
    assert 29 < float(model(words(1, 5)).logits.detach().abs().max()) <= 30


@pytest.mark.mechanism("A13")
def test_latent_attention_is_many_heads_over_keys_and_values_projected_from_one_latent():
    model = made(tiny("deepseek-v3", {"architecture.decoder.depth": 1}))
    a, attention = model.spec.architecture.decoder.block.attention, model.decoder.layers[0].attention
    x, where = drawn(2, 6, 32, seed=3), line(6)
    q = attention.query_up(attention.query_norm(attention.query_down(x))).unflatten(-1, (4, 12)).transpose(1, 2)
    latent, turning = attention.latent_down(x).split((a.kv_rank, a.rope_dim), -1)
    up = attention.latent_up(attention.latent_norm(latent)).unflatten(-1, (4, 16)).transpose(1, 2)
    q_turned, k_turned = attention.positions.rotate(q[..., 8:], turning[:, None], where)
    total = q[..., :8] @ up[..., :8].transpose(-1, -2) + q_turned @ k_turned.transpose(-1, -2)
    hidden = torch.ones(6, 6).triu(1).bool()
    weights = (total * a.score_scale).masked_fill(hidden, -torch.inf).softmax(-1)
    right = attention.out((weights @ up[..., 8:]).transpose(1, 2).flatten(-2))
    for backend in ("eager", "sdpa"):
        ours, _ = attention(x, x, where, where, Mask(causal=True), backend=backend)
        assert gap(ours, right) < 1e-12
    assert a.score_scale == pytest.approx(192**-0.5 * 1.3689**2, rel=1e-4)


@pytest.mark.mechanism("A13", "K2")
def test_latent_attention_keeps_one_latent_and_one_turned_key_a_token():
    model, cache = made("deepseek-v3"), Cache()
    with torch.no_grad():
        model(words(2, 5), cache=cache)
    (held,) = cache.layers[3].raw
    assert held.shape == (2, 1, 5, 12 + 4)


@pytest.mark.mechanism("A8", "K3")
def test_grouping_four_heads_over_two_halves_what_a_cache_keeps():
    kept = {}
    for kv_heads in (4, 2, 1):
        model = made(tiny("llama", {"architecture.decoder.block.attention.kv_heads": kv_heads}))
        cache = Cache()
        with torch.no_grad():
            model(words(1, 8), cache=cache)
        kept[kv_heads] = sum(tensor.numel() for slots in cache.layers for tensor in slots.raw)
    assert kept[4] == 2 * kept[2] == 4 * kept[1] == 2 * 6 * 8 * 4 * 8
