"""Feed-forwards: two matrices and an activation, or three and a gate."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.tiny_specs import gap, tiny, words
from variorum.builder import build
from variorum.parts.feedforward import ACTIVATIONS, MLP, GatedMLP
from variorum.parts.norms import build_norm
from variorum.parts.trace import Trace
from variorum.spec import feedforward as spec
from variorum.spec.inventory import feedforward_tensors
from variorum.spec.norms import RMSNorm


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.mechanism("F1")
def test_activations_have_their_values_at_one_and_minus_one():
    def both(name: str) -> list[float]:
        return ACTIVATIONS[name](torch.tensor([1.0, -1.0], dtype=torch.float64)).tolist()

    normal = (1 + math.erf(2**-0.5)) / 2
    bent = (1 + math.tanh((2 / math.pi) ** 0.5 * 1.044715)) / 2
    logistic = 1 / (1 + math.exp(-1))
    assert both("relu") == [1.0, 0.0]
    assert both("gelu") == pytest.approx([normal, normal - 1], abs=1e-12)  # 0.8413
    assert both("gelu_tanh") == pytest.approx([bent, bent - 1], abs=1e-12)  # 0.8412
    assert both("silu") == pytest.approx([logistic, logistic - 1], abs=1e-12)


@pytest.mark.mechanism("F1")
def test_two_matrices_and_their_biases():
    ff = MLP(spec.MLP(width=11, activation="gelu"), 6).double()
    x = drawn(2, 3, 6)
    right = F.gelu(x @ ff.up.weight.T + ff.up.bias) @ ff.down.weight.T + ff.down.bias
    assert gap(ff(x, Trace()), right) < 1e-14


@pytest.mark.mechanism("F2")
@pytest.mark.parametrize(("activation", "function"), [("silu", F.silu), ("gelu", F.gelu)])
def test_a_gate_multiplies_and_each_of_three_matrices_is_used_once(activation, function):
    ff = GatedMLP(spec.GatedMLP(width=11, activation=activation), 6).double()
    used: list[str] = []
    for name, child in ff.named_children():
        child.register_forward_hook(lambda module, args, out, name=name: used.append(name))
    x = drawn(2, 3, 6)
    right = (function(x @ ff.gate.weight.T) * (x @ ff.up.weight.T)) @ ff.down.weight.T
    assert gap(ff(x, Trace()), right) < 1e-14
    assert sorted(used) in (["gate", "up"], ["down", "gate", "up"])


@pytest.mark.mechanism("F2")
def test_three_matrices_of_eight_thirds_weigh_what_two_of_four_do():
    def count(ff: spec.AnyFeedForward) -> int:
        return sum(math.prod(shape) for _, shape in feedforward_tensors(ff, 768))

    gated = count(spec.GatedMLP(width=8 * 768 // 3, activation="silu"))
    assert gated == count(spec.MLP(width=4 * 768, activation="gelu", bias=False)) == 4_718_592


@pytest.mark.mechanism("F1")
@pytest.mark.case("V006")
def test_a_sum_beyond_float16_stays_finite_through_the_norm():
    ff = MLP(spec.MLP(width=2, activation="relu", bias=False), 8)
    with torch.no_grad():
        ff.up.weight.zero_()[:, 0] = 300.0
        ff.down.weight.copy_(torch.linspace(-3, 3, 8)[:, None].expand(8, 2))
        ff.down.weight[7] = 111.0
    norm, x = build_norm(RMSNorm(eps=1e-6), 8), torch.eye(8)[:1]
    whole = ff(x, Trace())
    assert float(whole[0, 7].detach()) == 66_600  # above 65,504
    half = ff.half()(x.half().requires_grad_(), Trace())
    assert half.dtype == torch.float16 and half.isfinite().all()
    wide, narrow = norm(whole).detach(), norm.half()(half)
    assert float((narrow.detach().float() - wide).norm() / wide.norm()) < 1e-2
    (narrow.float().sum() * 1024).backward()  # a scaled loss
    assert all(p.grad.isfinite().all() for p in ff.parameters())


@pytest.mark.mechanism("F1")
@pytest.mark.case("V006")
@pytest.mark.parametrize("name", ["t5", "t5-v1_1"])
def test_t5_stays_finite_in_float16_when_every_layer_overflows(name):
    model = build(tiny(name), head="seq2seq_lm")
    with torch.no_grad():
        for stack in (model.encoder, model.decoder):
            for layer in stack.layers:
                layer.feedforward.up.weight.mul_(100)
                layer.feedforward.down.weight.mul_(30_000)
    ids = words(2, 7)
    out = model.half()(ids, decoder_input_ids=ids, labels=ids)
    assert out.logits.isfinite().all() and out.loss.isfinite()


@pytest.mark.mechanism("F1", "F2")
def test_models_have_the_feedforward_that_their_papers_say():
    kinds = {"bert": MLP, "t5": MLP, "gpt2": MLP, "t5-v1_1": GatedMLP, "llama": GatedMLP, "gemma": GatedMLP}
    for name, kind in kinds.items():
        model = build(tiny(name))
        stack = model.decoder if model.is_decoder else model.encoder
        assert {type(layer.feedforward) for layer in stack.layers} == {kind}
