"""The Transformer of 2017 is what its paper says: sections 3.1 to 3.5 written out by hand give the same numbers.

No published class computes it, so the reference stands here: one sequence and one head at a time, in float64, with the
weights of our model under their names and nothing else of it.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests import gates
from tests.parity import oracle
from tests.spec.shrunk import shrunk
from tests.tiny_specs import made
from variorum.attention.cache import Cache
from variorum.family import find
from variorum.family.transformer import both
from variorum.model import Model

HEADS, DEPTH = 4, 3
SPEC = shrunk(find("transformer"), DEPTH)
Weights = dict[str, Tensor]


def linear(w: Weights, name: str, x: Tensor) -> Tensor:
    y = x @ w[f"{name}.weight"].T
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def normed(w: Weights, name: str, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    deviation = (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    return centred / deviation * w[f"{name}.weight"] + w[f"{name}.bias"]


def attention(w: Weights, name: str, x: Tensor, memory: Tensor, *, causal: bool) -> Tensor:
    """Section 3.2: each head softmaxes q·k / sqrt(d_k); the heads are joined and projected."""
    projected = (linear(w, f"{name}.{part}", y) for part, y in (("query", x), ("key", memory), ("value", memory)))
    mixed = []
    for q, k, v in zip(*(part.chunk(HEADS, -1) for part in projected), strict=True):
        rows = []
        for i in range(len(x)):
            seen = i + 1 if causal else len(memory)
            weights = (k[:seen] @ q[i] / math.sqrt(q.shape[-1])).exp()
            rows.append(weights / weights.sum() @ v[:seen])
        mixed.append(torch.stack(rows))
    return linear(w, f"{name}.out", torch.cat(mixed, -1))


def embedded(w: Weights, ids: Tensor) -> Tensor:
    """Sections 3.4 and 3.5: the table times the root of the width, and one wave for each pair of channels."""
    width = w["encoder.input.table.weight"].shape[1]
    waves = torch.zeros(len(ids), width, dtype=torch.float64)
    for position in range(len(ids)):
        for i in range(width // 2):
            angle = position / 10_000 ** (2 * i / width)
            waves[position, 2 * i], waves[position, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return w["encoder.input.table.weight"][ids] * math.sqrt(width) + waves


def stack(w: Weights, name: str, x: Tensor, memory: Tensor | None) -> Tensor:
    """Section 3.1: LayerNorm(x + Sublayer(x)), a decoder's second sublayer over what the encoder said."""
    for layer in range(DEPTH):
        at = f"{name}.layers.{layer}"
        own = attention(w, f"{at}.attention", x, x, causal=memory is not None)
        x = normed(w, f"{at}.attention_norms.join", x + own)
        if memory is not None:
            x = normed(w, f"{at}.cross_norms.join", x + attention(w, f"{at}.cross", x, memory, causal=False))
        inner = linear(w, f"{at}.feedforward.up", x).clamp(min=0)
        x = normed(w, f"{at}.feedforward_norms.join", x + linear(w, f"{at}.feedforward.down", inner))
    return x


def scores(w: Weights, source: Tensor, target: Tensor) -> Tensor:
    encoded = stack(w, "encoder", embedded(w, source), None)
    return stack(w, "decoder", embedded(w, target), encoded) @ w["encoder.input.table.weight"].T


@pytest.fixture(scope="module")
def model() -> Model:
    return made(SPEC, "seq2seq_lm")


def texts(*lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(6, 50, (length,), generator=generator) for length in lengths]


@pytest.mark.mechanism("P2", "N3", "A5", "E2", "F1")
def test_scores_and_gradients_are_those_of_the_paper_written_out(model: Model) -> None:
    source, target = texts(11, 7)
    out = model(source[None], decoder_input_ids=target[None])
    weights = {name: value.detach().clone().requires_grad_() for name, value in model.named_tensors()}
    right = scores(weights, source, target)
    assert float((out.logits[0] - right).detach().abs().max()) <= gates.SCORES * oracle.spread(right)

    model.zero_grad()
    oracle.loss({"logits": out.logits[0]}).backward()
    oracle.loss({"logits": right}).backward()
    ours = {name: value.grad for name, value in model.named_tensors()}
    assert oracle.gradient_gap(ours, {name: value.grad for name, value in weights.items()}) <= gates.GRADIENTS


@pytest.mark.mechanism("A6", "K1", "K7")
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_padding_and_a_cache_change_nothing(model: Model, left: bool) -> None:
    long, short, first, second = texts(11, 5, 6, 6)
    fill = torch.zeros(6, dtype=torch.long)
    ids = torch.stack([long, torch.cat((fill, short) if left else (short, fill))])
    mask = torch.stack([torch.ones(11), torch.cat((fill, fill[:5] + 1) if left else (fill[:5] + 1, fill))])
    weights = {name: value.detach() for name, value in model.named_tensors()}
    right = torch.stack([scores(weights, long, first), scores(weights, short, second)])
    written = torch.stack([first, second])
    with torch.no_grad():
        whole = model(ids, attention_mask=mask, decoder_input_ids=written).logits
        cache, pieces = Cache(), []
        for piece in written.split([2, 1, 3], 1):
            pieces.append(model(ids, attention_mask=mask, decoder_input_ids=piece, cache=cache).logits)
    for found in (whole, torch.cat(pieces, 1)):
        assert float((found - right).abs().max()) <= gates.SCORES * oracle.spread(right)


@pytest.mark.mechanism("O13")
def test_smoothing_spreads_a_tenth_of_each_target_over_the_vocabulary_in_training() -> None:
    source, target = texts(11, 7)
    spec = SPEC.set(dict.fromkeys((*both("block.dropout"), *both("input.dropout")), 0.0))
    quiet, given = made(spec, "seq2seq_lm"), {"labels": target[None]}
    plain = quiet(source[None], **given)
    logs = plain.logits[0].log_softmax(-1).detach()
    hard, even = -logs[torch.arange(7), target].mean(), -logs.mean()
    assert float(plain.loss.detach()) == pytest.approx(float(hard), rel=1e-12)
    smoothed = quiet.train()(source[None], **given).loss
    assert float(smoothed.detach()) == pytest.approx(float(0.9 * hard + 0.1 * even), rel=1e-12)


@pytest.mark.mechanism("C1")
@pytest.mark.parametrize(("name", "parameters"), [("transformer-base", 63_045_632), ("transformer-big", 214_171_648)])
def test_its_sizes_follow_from_the_paper(name: str, parameters: int) -> None:
    """Table 3, without biases in attention and with one shared table of 37,000 rows."""
    width, ff = (512, 2048) if name.endswith("base") else (1024, 4096)
    attention, feedforward, norm = 4 * width**2, 2 * width * ff + ff + width, 2 * width
    encoder, decoder = attention + feedforward + 2 * norm, 2 * attention + feedforward + 3 * norm
    assert 37_000 * width + 6 * (encoder + decoder) == parameters
    assert find(name).size(context=1).parameters == parameters
