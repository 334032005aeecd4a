"""Norms: what they compute, in which precision, and where a block puts them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.tiny_specs import gap, made, words
from variorum.parts.norms import build_norm
from variorum.spec import norms as spec

WIDTH = 24


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def norm_of(what: spec.Norm | None) -> nn.Module:
    """The norm in float64, its parameters drawn."""
    module = build_norm(what, WIDTH).double()
    for index, parameter in enumerate(module.parameters()):
        parameter.data = drawn(WIDTH, seed=index + 1)
    return module


@pytest.mark.mechanism("N1")
def test_layernorm_centres_scales_gains_and_shifts():
    norm, x = norm_of(spec.LayerNorm(eps=1e-5)), 3 + drawn(2, 5, WIDTH)
    centred = x - x.mean(-1, keepdim=True)
    right = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias
    assert gap(norm(x), right) < 1e-14


@pytest.mark.mechanism("N1", "N2")
def test_a_bias_free_layernorm_has_one_vector():
    norm = norm_of(spec.LayerNorm(eps=1e-5, bias=False))
    assert [name for name, _ in norm.named_parameters()] == ["weight"]
    assert gap(norm(drawn(3, WIDTH).expand(3, -1) * 0 + 7.0), torch.zeros(3, WIDTH).double()) == 0


@pytest.mark.mechanism("N2")
@pytest.mark.parametrize("unit_offset", [False, True])
def test_rmsnorm_divides_by_the_root_mean_square_and_gemma_adds_one_to_the_gain(unit_offset):
    norm, x = norm_of(spec.RMSNorm(eps=1e-6, unit_offset=unit_offset)), 3 + drawn(2, 5, WIDTH)
    gain = norm.weight + 1 if unit_offset else norm.weight
    assert gap(norm(x), x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain) < 1e-14
    assert gap(norm(4 * x), norm(x)) < 1e-6


@pytest.mark.mechanism("N2")
def test_squares_that_float16_cannot_hold_do_not_turn_rmsnorm_into_zeros():
    x = (400 * drawn(2, 5, WIDTH)).half()
    assert x.square().isinf().any()
    norm = build_norm(spec.RMSNorm(eps=1e-6), WIDTH)
    assert gap(norm.half()(x).float(), norm.float()(x.float())) < 2e-3


@pytest.mark.mechanism("N8")
def test_no_norm_is_the_identity():
    x = drawn(2, WIDTH)
    assert norm_of(None)(x) is x


@pytest.mark.mechanism("N8")
def test_modernbert_norms_its_embeddings_and_has_no_bias_before_its_heads():
    model = made("modernbert")
    embedded = model(words(2, 9), output_hidden_states=True).hidden_states[0]
    looked_up = model.encoder.input.table(words(2, 9))
    assert gap(embedded, model.encoder.input.norm(looked_up)) == 0
    assert not [name for name, _ in model.named_parameters() if "bias" in name]
    assert [name for name, _ in made("bert").named_parameters() if name.endswith("query.bias")]
