"""The biLM: cell by cell it equals LSTMs written out, and neither half of a state has seen the other side."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests import gates
from tests.parity import oracle
from tests.tiny_specs import shaken, words
from variorum.builder import build, empty
from variorum.errors import UsageError
from variorum.family.bilm import BILM
from variorum.model import Model
from variorum.parts.heads import head_loss
from variorum.spec.heads import TwoWayHead
from variorum.spec.model import Model as Spec
from variorum.spec.rules import check, problems
from variorum.spec.size import size

ROOT = "architecture.recurrent"
SMALL = BILM.set({"architecture.width": 12, f"{ROOT}.cells": 10, f"{ROOT}.input.vocab": 50, f"{ROOT}.depth": 3})
PLAIN = SMALL.set({f"{ROOT}.cells": None})
HALF, DEPTH = 6, 3
Weights = dict[str, Tensor]


def made(spec: Spec, head: str | None = None) -> Model:
    return shaken(build(spec, head=head))


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + (-x).exp())


def lstm(w: Weights, name: str, x: Tensor) -> Tensor:
    """One text [T, half] in the order in which it is read: every gate by itself."""
    cells = len(w[f"{name}.gates.bias"]) // 4
    h, c = x.new_zeros(x.shape[1]), x.new_zeros(cells)
    said = []
    for row in x:
        gates = []
        for number in range(4):
            rows = slice(number * cells, (number + 1) * cells)
            told = w[f"{name}.gates.weight"][rows] @ row + w[f"{name}.gates.bias"][rows]
            gates.append(told + w[f"{name}.state.weight"][rows] @ h)
        c = sigmoid(gates[1]) * c + sigmoid(gates[0]) * gates[2].tanh()
        h = sigmoid(gates[3]) * c.tanh()
        h = w[f"{name}.out.weight"] @ h if f"{name}.out.weight" in w else h
        said.append(h)
    return torch.stack(said)


def states(w: Weights, ids: Tensor) -> list[Tensor]:
    """What each layer says of one text, [T, D]: two stacks that never meet."""
    x = w["recurrent.input.table.weight"][ids]
    left, right, found = x, x, [torch.cat((x, x), -1)]
    for layer in range(DEPTH):
        at = f"recurrent.layers.{layer}"
        ahead, back = lstm(w, f"{at}.from_left", left), lstm(w, f"{at}.from_right", right.flip(0)).flip(0)
        left, right = (ahead, back) if layer == 0 else (left + ahead, right + back)
        found.append(torch.cat((left, right), -1))
    return found


def mixed(w: Weights, ids: Tensor) -> Tensor:
    shares = w["recurrent.mix.weights"].exp() / w["recurrent.mix.weights"].exp().sum()
    return w["recurrent.mix.scale"] * sum(share * state for share, state in zip(shares, states(w, ids), strict=True))


def weights(model: Model) -> Weights:
    return {name: value.detach().clone().requires_grad_() for name, value in model.named_tensors()}


@pytest.mark.parametrize("spec", [SMALL, PLAIN], ids=["projected", "plain"])
def test_states_and_gradients_are_those_of_lstms_written_out(spec: Spec) -> None:
    model, ids = made(spec), words(1, 9)
    w = weights(model)
    out, right = model(ids, output_hidden_states=True), mixed(w, ids[0])
    assert float((out.last_hidden_state[0] - right).detach().abs().max()) <= gates.SCORES * oracle.spread(right)
    for ours, theirs in zip(out.hidden_states, states(w, ids[0]), strict=True):
        assert float((ours[0] - theirs).detach().abs().max()) <= gates.SCORES * oracle.spread(theirs)
    oracle.loss({"logits": out.last_hidden_state[0]}).backward()
    oracle.loss({"logits": right}).backward()
    ours = {name: value.grad for name, value in model.named_tensors()}
    assert oracle.gradient_gap(ours, {name: value.grad for name, value in w.items()}) <= gates.GRADIENTS


def test_a_plain_layer_is_torchs_own_lstm() -> None:
    model, ids = made(PLAIN), words(2, 7)
    layer, x = model.recurrent.layers[0], model.recurrent.input.table(ids)
    for side, text in ((layer.from_left, x), (layer.from_right, x.flip(1))):
        theirs = torch.nn.LSTM(HALF, HALF, batch_first=True, dtype=torch.float64)
        theirs.weight_ih_l0, theirs.weight_hh_l0 = side.gates.weight, side.state.weight
        theirs.bias_ih_l0, theirs.bias_hh_l0 = side.gates.bias, torch.nn.Parameter(torch.zeros_like(side.gates.bias))
        right = theirs(text)[0]
        right = right.flip(1) if side.backwards else right
        assert torch.allclose(side(x, torch.ones_like(ids, dtype=torch.bool)), right, rtol=0, atol=1e-14)


@pytest.mark.mechanism("C16")
def test_the_half_from_the_left_never_sees_the_right() -> None:
    """By Jacobian: state t of a half depends on the tokens of its side up to t, on all of them, and on no other."""
    model = made(SMALL)
    vectors = model.recurrent.input.table(words(1, 7)).detach().requires_grad_()
    out = model(inputs_embeds=vectors, output_hidden_states=True)
    for state in (*out.hidden_states[1:], out.last_hidden_state):
        for t in range(7):
            for half, seen in ((slice(0, HALF), range(t + 1)), (slice(HALF, None), range(t, 7))):
                (jacobian,) = torch.autograd.grad(state[0, t, half].sum(), vectors, retain_graph=True)
                assert {i for i in range(7) if jacobian[0, i].abs().max() > 0} == set(seen)


@pytest.mark.mechanism("A6")
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@pytest.mark.parametrize("head", [None, *SMALL.architecture.heads])
def test_padding_changes_no_state_no_score_and_no_loss(left: bool, head: str | None) -> None:
    model, long, short = made(SMALL, head), words(1, 9)[0], words(1, 5, seed=1)[0]
    fill = torch.full((4,), 3)
    ids = torch.stack([long, torch.cat((fill, short) if left else (short, fill))])
    real = torch.stack(
        [torch.ones(9), torch.cat((torch.zeros(4), torch.ones(5)) if left else (torch.ones(5), torch.zeros(4)))]
    )
    both, alone = model(ids, attention_mask=real), [model(one[None]) for one in (long, short)]
    for row, one in enumerate(alone):
        keep = real[row].bool()
        assert torch.allclose(both.last_hidden_state[row][keep], one.last_hidden_state[0], rtol=0, atol=1e-13)
        if one.logits is not None:
            scores = both.logits[row] if head == "sequence_classification" else both.logits[row][keep]
            assert torch.allclose(scores, one.logits[0], rtol=0, atol=1e-13)
    if head == "bidirectional_lm":
        labels = ids.masked_fill(real == 0, -100)
        whole = model(ids, attention_mask=real, labels=labels).loss
        parts = [model(one[None], labels=one[None]).loss * 2 * (len(one) - 1) for one in (long, short)]
        assert float(whole.detach()) == pytest.approx(float(sum(parts).detach()) / (16 + 8), rel=1e-12)


def test_the_next_word_is_told_from_the_left_and_the_one_before_from_the_right() -> None:
    model, ids = made(SMALL, "bidirectional_lm"), words(1, 6)
    out = model(ids, labels=ids)
    top, w = states(weights(model), ids[0])[-1], weights(model)
    scores = [half @ w["recurrent.input.table.weight"].T + w["heads.bidirectional_lm.project.bias"]
              for half in top.chunk(2, -1)]  # fmt: skip
    assert torch.allclose(out.logits[0], torch.stack(scores, 1), rtol=0, atol=1e-12)
    ahead, back = (one.log_softmax(-1) for one in scores)
    told = [ahead[t, ids[0, t + 1]] for t in range(5)] + [back[t, ids[0, t - 1]] for t in range(1, 6)]
    assert float(out.loss.detach()) == pytest.approx(-float(sum(told).detach()) / 10, rel=1e-12)
    assert float(head_loss("bidirectional_lm", torch.zeros(1, 3, 2, 50), words(1, 3))) == pytest.approx(math.log(50))


@pytest.mark.parametrize("head", SMALL.architecture.heads)
def test_it_learns(head: str) -> None:
    torch.manual_seed(0)
    model = build(SMALL, head=head).train()
    ids = words(8, 6)
    labels = {"bidirectional_lm": ids, "sequence_classification": ids[:, 0] % 2, "token_classification": ids % 2,
              "question_answering": ids[:, :2] % 6}[head]  # fmt: skip
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = model(ids, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert all(math.isfinite(loss) for loss in losses) and losses[-1] < 0.6 * losses[0]


def test_it_is_saved_and_read_again(tmp_path: Path) -> None:
    import variorum

    model = variorum.build(SMALL, head="bidirectional_lm", seed=3)
    model.save(tmp_path / "m")
    again = variorum.load(tmp_path / "m")
    assert (again.spec.architecture, again.head_names) == (SMALL.architecture, ("bidirectional_lm",))
    assert torch.equal(again(words(1, 6)).logits, model(words(1, 6)).logits)


@pytest.mark.mechanism("C1", "C2")
def test_its_size_is_that_of_the_built_model_and_follows_from_the_cells() -> None:
    half, cells, vocab = 512, 4096, 30_522
    lstm_size = 4 * cells * (half + half + 1) + half * cells
    counted = vocab * half + 4 * lstm_size + 3 + 1 + vocab
    assert size(BILM, head="bidirectional_lm", context=8).parameters == counted
    assert sum(one.numel() for one in empty(BILM, ["bidirectional_lm"]).parameters()) == counted
    found = size(BILM, head="bidirectional_lm", context=8)
    assert found.flops == 2 * (4 * (2 * 4 * cells * half + cells * half) + 2 * half * vocab)
    assert [one.parameters for one in found.layers] == [2 * lstm_size] * 2
    assert found.cache == 0 and found.reach is None


@pytest.mark.parametrize(
    ("use", "why"),
    [
        ("generate", "left-to-right"), ("causal_lm", "no-copying"), ("seq2seq_lm", "two-stacks"),
        ("permutation_lm", "two-streams"), ("fill_mask", "head-masked_lm".replace("_", "-")),
    ],
)  # fmt: skip
def test_what_it_cannot_do_is_refused_with_a_reason(use: str, why: str) -> None:
    assert why in {problem.rule for problem in problems(BILM, use)}


def test_what_it_can_do_is_not() -> None:
    assert check(BILM) == []
    for use in ("bidirectional_lm", "embed", "sequence_classification", "token_classification", "question_answering"):
        assert problems(BILM, use) == []


def test_it_takes_no_cache_no_segments_and_no_stream_and_has_no_maps() -> None:
    from variorum.attention.cache import Cache

    model, ids = made(SMALL), words(1, 5)
    for given in ({"cache": Cache()}, {"token_type_ids": ids}, {"lengths": [5]}, {"memory": []}):
        with pytest.raises(UsageError):
            model(ids, **given)
    assert model(ids, output_attentions=True).attentions == []


def test_a_head_of_two_halves_needs_them() -> None:
    from variorum.family import find

    spec = find("bert").set({"architecture.heads.bidirectional_lm": TwoWayHead()})
    assert "two-halves" in {problem.rule for problem in check(spec)}
    assert "two-directions" in {problem.rule for problem in problems(spec, "bidirectional_lm")}
