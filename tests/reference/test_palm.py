"""PaLM, of which nothing was released, equals a second implementation written from its paper: scores and gradients.

Chowdhery et al. 2022, section 2: SwiGLU, parallel layers, one key and one value head, rotary positions, one matrix for
input and output, no biases.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests import gates
from tests.tiny_specs import VOCAB, made, tiny, words
from variorum.family import find
from variorum.spec.size import size

HEADS, HEAD, WIDTH = 4, 8, 32
SCALE = "architecture.heads.causal_lm.scale"
LAYER = "decoder.layers.{}.{}.weight"


def scores(weights: dict[str, Tensor], ids: Tensor, depth: int) -> Tensor:
    """Next-word scores [B, T, V] of float64 ``weights``, from the paper's equations alone."""
    table = weights["decoder.input.table.weight"]
    x = table[ids]
    for i in range(depth):
        h = normed(x, weights[LAYER.format(i, "attention_norms.before")])
        w = {name: weights[LAYER.format(i, name)] for name in (
            "attention.query", "attention.key", "attention.value", "attention.out",
            "feedforward.gate", "feedforward.up", "feedforward.down",
        )}  # fmt: skip
        attended = torch.stack([head(h, w, n) for n in range(HEADS)], 2).flatten(2) @ w["attention.out"].T
        gate, up = h @ w["feedforward.gate"].T, h @ w["feedforward.up"].T
        x = x + attended + (gate / (1 + (-gate).exp()) * up) @ w["feedforward.down"].T
    return normed(x, weights["decoder.final_norm.weight"]) @ table.T / WIDTH**0.5


def head(h: Tensor, w: dict[str, Tensor], n: int) -> Tensor:
    """What query head ``n`` reads through the one key and one value head, [B, T, HEAD]."""
    length = h.shape[1]
    q = turned(h @ w["attention.query"][n * HEAD : (n + 1) * HEAD].T)
    k = turned(h @ w["attention.key"].T)
    v = h @ w["attention.value"].T
    rows = []
    for t in range(length):
        s = (k[:, : t + 1] * q[:, t : t + 1]).sum(-1) / HEAD**0.5
        weight = s.exp() / s.exp().sum(-1, keepdim=True)
        rows.append((weight[..., None] * v[:, : t + 1]).sum(1))
    return torch.stack(rows, 1)


def turned(x: Tensor) -> Tensor:
    """Channels c and c + HEAD/2 as one complex number, turned by t·10000^(-2c/HEAD) at position t."""
    real, imaginary = x.split(HEAD // 2, -1)
    angles = torch.arange(x.shape[1])[:, None] * 10_000.0 ** (-torch.arange(0, HEAD, 2).double() / HEAD)
    out = torch.complex(real, imaginary) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((out.real, out.imag), -1)


def normed(x: Tensor, weight: Tensor) -> Tensor:
    """To mean 0 and variance 1, times the weight; there is no bias."""
    centred = x - x.sum(-1, keepdim=True) / WIDTH
    return centred / (centred.square().sum(-1, keepdim=True) / WIDTH + 1e-6).sqrt() * weight


@pytest.mark.mechanism("N5", "A7", "F2")
@pytest.mark.parametrize("length", [1, 13])
def test_palm_is_what_its_paper_says(length):
    model = made(tiny("palm", {SCALE: WIDTH**-0.5}), "causal_lm")
    model.backend, ids = "eager", words(2, length)
    weights = {name: value.detach().clone().requires_grad_() for name, value in model.named_tensors()}
    right, ours = scores(weights, ids, 6), model(ids).logits
    assert right.shape == (2, length, VOCAB)
    spread = float(right.detach().std())
    assert float((ours - right).detach().abs().max()) <= gates.SCORES * spread
    asked = torch.randn(right.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (right * asked).sum().backward()
    (ours * asked).sum().backward()
    largest = max(float(value.grad.abs().max()) for value in weights.values())
    for name, value in model.named_tensors():
        assert float((value.grad - weights[name].grad).abs().max()) <= gates.GRADIENTS * largest, name


@pytest.mark.mechanism("C1", "A7")
@pytest.mark.parametrize(
    ("name", "parameters", "layer", "cache"),
    [
        ("palm-8b", 8_632_012_800, 236_982_272, 32_768),
        ("palm-62b", 62_495_662_080, 943_726_592, 65_536),
        ("palm-540b", 540_356_474_880, 4_539_303_936, 120_832),
    ],
)
def test_the_sizes_of_table_1_count_as_published(name, parameters, layer, cache):
    model = find(name)
    counted = size(model, context=2048)
    assert counted.parameters == parameters == pytest.approx(model.published, rel=2e-3)
    assert {one.parameters for one in counted.layers} == {layer}
    assert counted.cache_per_token == cache
