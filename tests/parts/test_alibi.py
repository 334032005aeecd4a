"""ALiBi: the published slopes for any number of heads, a straight line in distance, and nothing learned."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.tiny_specs import gap, lm_head, made, run, tiny, words
from variorum.builder import build
from variorum.inference.generate import generate
from variorum.model import Model
from variorum.parts.positions import Alibi, alibi_slopes
from variorum.parts.where import Where, order_from_mask
from variorum.spec import positions as spec
from variorum.spec import rules
from variorum.spec.inventory import tensors
from variorum.spec.model import Model as Spec

ENCODER = "architecture.encoder"
LINES = {f"{ENCODER}.positions": spec.Alibi(), f"{ENCODER}.input.positions": None}


def line(length: int, mask: Tensor | None = None) -> Where:
    order = order_from_mask(mask, length, torch.device("cpu"))
    return Where(order, order, order, order, padded=mask is not None)


def bias(heads: int, length: int, **fields: object) -> Tensor:
    found = Alibi(spec.Alibi(**fields), heads).bias(line(length), torch.float64)
    assert found is not None
    return found


def roberta() -> Spec:
    return tiny("roberta", LINES)


@pytest.mark.mechanism("P5")
def test_slopes_are_powers_of_two_from_a_half_to_1_in_256():
    assert alibi_slopes(8).tolist() == [2.0**-h for h in range(1, 9)]
    assert alibi_slopes(16).tolist() == pytest.approx([2 ** (-h / 2) for h in range(1, 17)], rel=1e-15)
    assert alibi_slopes(1).tolist() == [1 / 256]
    assert alibi_slopes(8, max_bias=16.0).tolist() == [4.0**-h for h in range(1, 9)]


@pytest.mark.mechanism("P5")
def test_twelve_heads_have_the_slopes_of_eight_and_then_every_second_of_sixteen():
    assert alibi_slopes(12)[:8].tolist() == alibi_slopes(8).tolist()
    assert alibi_slopes(12)[8:].tolist() == pytest.approx([0.70711, 0.35355, 0.17678, 0.08839], abs=5e-6)


@pytest.mark.mechanism("P5")
@pytest.mark.parametrize("heads", [3, 5, 6, 7, 12, 20, 71, 112])
def test_the_slopes_of_bloom_from_below_and_of_mpt_from_above_are_the_same(heads):
    below = 2 ** math.floor(math.log2(heads))
    extra = [2 ** (-8 * odd / (2 * below)) for odd in range(1, 2 * (heads - below), 2)]
    from_below = [2 ** (-8 * h / below) for h in range(1, below + 1)] + extra
    assert alibi_slopes(heads).tolist() == pytest.approx(from_below, rel=1e-15)


@pytest.mark.mechanism("P5")
def test_a_bias_is_the_slope_times_how_far_back_the_key_is():
    found = bias(8, 5)
    assert found.shape == (1, 8, 5, 5)
    assert found[0, 0, 4].tolist() == [-2.0, -1.5, -1.0, -0.5, 0.0]
    assert found[0, 7, 4].tolist() == [-4 / 256, -3 / 256, -2 / 256, -1 / 256, 0.0]
    # To both sides alike, so that a bidirectional stack can use it too.
    assert found[0, 0, 0].tolist() == [0.0, -0.5, -1.0, -1.5, -2.0]


@pytest.mark.mechanism("P5")
def test_distance_counts_real_tokens_wherever_the_padding_stands():
    part = Alibi(spec.Alibi(), 8)
    left = part.bias(line(6, torch.tensor([[0, 0, 1, 1, 1, 1]])), torch.float64)
    holed = part.bias(line(6, torch.tensor([[1, 1, 0, 1, 0, 1]])), torch.float64)
    plain = bias(8, 4)
    assert torch.equal(left[:, :, 2:, 2:], plain)
    real = torch.tensor([0, 1, 3, 5])
    assert torch.equal(holed[:, :, real][..., real], plain)


@pytest.mark.mechanism("P5")
def test_near_keys_stay_apart_in_half_precision_far_into_a_text():
    ends = torch.tensor([[4094, 4095]])
    where = Where(ends[:, 1:], ends, ends[:, 1:], ends)
    found = Alibi(spec.Alibi(), 8).bias(where, torch.bfloat16)
    assert found.dtype == torch.bfloat16
    assert found[0, 0, 0].tolist() == [-0.5, 0.0]


@pytest.mark.mechanism("P5")
def test_falcon_adds_the_same_lines_before_the_scale():
    part, where, q = Alibi(spec.Alibi(scaled=True), 4), line(5), torch.zeros(1, 4, 5, 8, dtype=torch.float64)
    assert part.bias(where, torch.float64) is None
    assert torch.equal(part.scores(q, q, where), bias(4, 5))
    # A scale of 1/8 then leaves an eighth of each slope: as flat as slopes that start three powers lower.
    root = "architecture.decoder"
    plain = {f"{root}.block.attention.scale": 1.0, f"{root}.positions": spec.Alibi()}
    assert gap(logits("falcon-rw", plain), logits("falcon-rw", {**plain, f"{root}.positions.scaled": True})) < 1e-13
    assert gap(logits("falcon-rw"), logits("falcon-rw", {f"{root}.positions.scaled": False})) > 1e-3


def logits(name: str, values: dict[str, object] | None = None) -> Tensor:
    return made(tiny(name, values), lm_head(name))(words(2, 12)).logits


@pytest.mark.mechanism("P5")
def test_nothing_is_learned_and_no_length_is_built_in():
    with_lines, without = roberta(), tiny("roberta", {f"{ENCODER}.input.positions": None})
    assert tensors(with_lines.architecture) == tensors(without.architecture)
    model = made("bloom", "causal_lm")
    assert torch.isfinite(model(words(1, 300)).logits).all()


@pytest.mark.mechanism("P5", "A1")
@pytest.mark.parametrize("which", ["bloom", "mpt", "falcon-rw", "roberta"])
@pytest.mark.parametrize("mask", [None, [[1] * 12, [0] * 5 + [1] * 7]], ids=["whole", "padded"])
def test_the_fused_backend_adds_the_same_lines(which, mask):
    model = made(roberta() if which == "roberta" else which)
    mask = None if mask is None else torch.tensor(mask)
    real = torch.ones(2, 12, dtype=torch.bool) if mask is None else mask.bool()
    found = []
    for model.backend in ("eager", "sdpa"):
        found.append(run(model, words(2, 12), mask).last_hidden_state[real])
    assert gap(*found) < 1e-12


@pytest.mark.mechanism("P5")
def test_roberta_with_linear_biases_is_legal_blind_to_padding_and_trains():
    assert rules.check(roberta()) == []
    model, ids = made(roberta(), "masked_lm"), words(2, 9)
    padded = torch.cat((torch.full((2, 3), 5), ids), 1)
    mask = torch.cat((torch.zeros(2, 3), torch.ones(2, 9)), 1).long()
    assert gap(model(padded, attention_mask=mask).logits[:, 3:], model(ids).logits) < 1e-12
    losses = trained(build(roberta(), head="masked_lm"), words(4, 12))
    assert losses[-1] < 0.5 * losses[0]


def trained(model: Model, ids: Tensor) -> list[float]:
    """Losses of forty steps that learn to tell every word from its neighbours."""
    masked = ids.clone()
    masked[:, 1::3] = 5
    optimiser = torch.optim.AdamW(model.train().parameters(), lr=3e-3)
    losses = []
    for _ in range(40):
        loss = model(masked, labels=ids).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.mechanism("P5")
def test_a_word_moved_away_is_seen_less_and_order_is_seen():
    """Without positions an encoder could not tell the two orders apart."""
    model, ids = made(roberta()), words(1, 8)
    swapped = ids[:, [0, 1, 5, 3, 4, 2, 6, 7]]
    first, second = (model(one).last_hidden_state[0, 0] for one in (ids, swapped))
    assert gap(first, second) > 1e-6
    blind = made(tiny("roberta", {f"{ENCODER}.input.positions": None}))
    first, second = (blind(one).last_hidden_state[0, 0] for one in (ids, swapped))
    assert gap(first, second) < 1e-12


@pytest.mark.mechanism("P5", "G2")
@pytest.mark.parametrize("name", ["bloom", "mpt", "falcon-rw"])
def test_what_is_written_from_a_cache_is_what_recomputing_writes(name):
    model, prompts = made(name, "causal_lm"), [words(1, 6)[0].tolist(), words(1, 3, seed=1)[0].tolist()]
    right = generate(model, prompts, max_new_tokens=8, use_cache=False)
    alone = [generate(model, [one], max_new_tokens=8)[0] for one in prompts]
    for ways in (generate(model, prompts, max_new_tokens=8), alone):
        for way, other in zip(ways, right, strict=True):
            assert way.ids == other.ids
            assert way.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-12)
