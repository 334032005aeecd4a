"""What whole models do: who depends on whom, what padding may change, and what their scores add up to."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from tests.checks.held import held
from tests.spec.shrunk import TEXT
from tests.tiny_specs import (
    DECODERS,
    ENCODERS,
    NAMES,
    SEQ2SEQ,
    gap,
    lm_head,
    made,
    run,
    tiny,
    words,
)
from variorum.builder import build
from variorum.checks.attention import appended_token, causal_leakage, cls_token
from variorum.checks.decoding import chain_rule
from variorum.family import find
from variorum.parts.heads import head_loss
from variorum.spec.architecture import Sharing
from variorum.spec.inventory import tensors


def next_words(model, ids: Tensor, mask: Tensor | None = None) -> Tensor:
    """Scores after the last slot, [B, V]."""
    return model(ids, attention_mask=mask).logits[:, -1]


# Padding


@pytest.mark.mechanism("A6")
@pytest.mark.case("V001")
@pytest.mark.parametrize("name", DECODERS)
def test_a_short_prompt_padded_to_a_longer_one_goes_on_as_if_alone(name):
    model = made(name, "causal_lm")
    alone = next_words(model, torch.tensor([[7, 3, 9]]))
    mask = torch.tensor([[0, 0, 1, 1, 1], [1] * 5])
    for pad in (0, 11):
        both = next_words(model, torch.tensor([[pad, pad, 7, 3, 9], [4, 8, 2, 6, 1]]), mask)
        assert gap(both[:1], alone) < 1e-12
        assert both[0].argmax() == alone.argmax()


@pytest.mark.mechanism("P3")
@pytest.mark.case("V001")
def test_the_real_tokens_of_a_padded_prompt_stand_at_0_1_2():
    model = build(tiny("gpt2"))
    seen: list[Tensor] = []
    model.decoder.input.positions.register_forward_hook(lambda module, args, out: seen.append(args[0]))
    model(torch.tensor([[0, 0, 7, 3, 9]]), attention_mask=torch.tensor([[0, 0, 1, 1, 1]]))
    assert seen[0][0, 2:].tolist() == [0, 1, 2]


@pytest.mark.mechanism("A6")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_text_is_read_the_same_alone_and_padded_on_either_side(name, side):
    model = made(name)
    row, pads = words(1, 8), torch.full((1, 4), tiny(name).architecture.main.input.pad_id or 0)
    ids = torch.cat((pads, row) if side == "left" else (row, pads), 1)
    mask = torch.tensor([[0] * 4 + [1] * 8 if side == "left" else [1] * 8 + [0] * 4])
    both_ids, both_mask = torch.cat((ids, words(1, 12, seed=1))), torch.cat((mask, torch.ones_like(mask)))
    target = {"decoder_input_ids": row[:, :5]} if name in SEQ2SEQ else {}
    alone = run(model, row, **target).last_hidden_state
    target = {k: v.expand(2, -1) for k, v in target.items()}
    padded = run(model, both_ids, both_mask, **target).last_hidden_state[:1]
    real = padded if name in SEQ2SEQ else padded[mask.bool()][None]
    assert gap(real, alone) < 1e-12


# Who depends on whom


@pytest.mark.mechanism("C16", "A3", "A4", "A5")
@pytest.mark.parametrize("name", NAMES)
def test_no_future_token_changes_a_causal_state_and_every_token_changes_every_other(name):
    found = held(causal_leakage(made(name)))
    assert len(found) == (2 if name in DECODERS else 1 if name in ENCODERS else 3)


@pytest.mark.mechanism("C23")
@pytest.mark.parametrize("name", NAMES)
def test_one_more_token_changes_every_encoder_state_and_no_causal_one(name):
    held(appended_token(made(name)))


@pytest.mark.mechanism("C19")
@pytest.mark.parametrize("name", ENCODERS)
def test_the_first_token_is_the_same_for_every_text_at_first_and_hears_all_of_it_at_last(name):
    held(cls_token(made(name)))


# Inputs, shared tensors and heads


@pytest.mark.mechanism("E1", "I1")
def test_berts_input_is_the_norm_of_token_position_and_segment_summed():
    model = made("bert")
    ids = torch.tensor([[2, 9, 10, 3, 11, 12, 3, 0, 0]])  # [CLS] A A [SEP] B B [SEP] [PAD] [PAD]
    kinds = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 0, 0]])
    given = {"token_type_ids": kinds, "attention_mask": (ids > 0).long(), "output_hidden_states": True}
    first = model(ids, **given).hidden_states[0]
    parts = model.encoder.input
    right = parts.table(ids) + parts.positions(torch.arange(9)) + parts.segments(kinds)
    assert gap(first[:, :7], parts.norm(right)[:, :7]) < 1e-12
    one = model(ids, **given | {"token_type_ids": torch.zeros_like(kinds)}).last_hidden_state
    assert gap(one[:, :7], model(ids, **given).last_hidden_state[:, :7]) > 1e-3


@pytest.mark.mechanism("E2")
@pytest.mark.parametrize("name", [name for name in NAMES if TEXT[name].architecture.main.tokens.clusters is None])
def test_a_tied_head_is_the_table_itself_and_counts_once(name):
    head = lm_head(name)
    model, spec = made(name, head), tiny(name).architecture.heads[head]
    table = (model.encoder if name not in DECODERS else model.decoder).input.table.weight
    project = model.heads[head].project.weight
    assert (project is table) == (spec.tie is not None)
    counted = sum(p.numel() for p in model.parameters())
    assert counted == sum(math.prod(shape) for shape in tensors(model.spec.architecture, [head]).values())


@pytest.mark.mechanism("E3")
def test_alberts_table_is_a_product_of_two_and_five_times_smaller():
    shapes = tensors(find("albert-base-v2").architecture)
    table, project = shapes["encoder.input.table.weight"], shapes["encoder.input.project.weight"]
    assert (table, project) == ((30_000, 128), (768, 128))
    assert math.prod(table) + math.prod(project) == 3_938_304
    assert 30_000 * 768 == 23_040_000
    model = made("albert")
    ids = words(1, 5)
    parts = model.encoder.input
    first = model(ids, output_hidden_states=True).hidden_states[0]
    right = parts.table(ids) + parts.positions(torch.arange(5)) + parts.segments(torch.zeros_like(ids))
    assert gap(first, parts.norm(right) @ parts.project.weight.T + parts.project.bias) < 1e-12


@pytest.mark.mechanism("E4", "C3")
@pytest.mark.parametrize(
    ("sharing", "attentions", "feedforwards"),
    [
        (None, 6, 6),
        (Sharing(), 1, 1),
        (Sharing(parts=("attention",)), 1, 6),
        (Sharing(parts=("feedforward",)), 6, 1),
        (Sharing(groups=2), 2, 2),
        (Sharing(inner=2), 2, 2),
    ],
)
def test_shared_layers_are_one_set_of_tensors_and_as_many_multiplications(sharing, attentions, feedforwards):
    model = made(tiny("albert", {"architecture.encoder.sharing": sharing}))
    layers = model.encoder.layers
    assert len({id(layer.attention.query.weight) for layer in layers}) == attentions
    assert len({id(layer.feedforward.up.weight) for layer in layers}) == feedforwards
    one_each = {
        what: sum(p.numel() for part in (what, f"{what}_norms") for p in getattr(layers[0], part).parameters())
        for what in ("attention", "feedforward")
    }
    in_layers = sum(p.numel() for p in layers.parameters())
    assert in_layers == attentions * one_each["attention"] + feedforwards * one_each["feedforward"]
    with FlopCounterMode(display=False) as counter:
        model(words(1, 7))
    with FlopCounterMode(display=False) as unshared:
        made(tiny("albert", {"architecture.encoder.sharing": None}))(words(1, 7))
    assert counter.get_total_flops() == unshared.get_total_flops() > 0


@pytest.mark.mechanism("C17")
@pytest.mark.parametrize("name", [*DECODERS, *SEQ2SEQ])
def test_each_scores_softmax_sums_to_one_and_the_text_is_the_product_of_its_words(name):
    held(chain_rule(made(name, lm_head(name))))


@pytest.mark.mechanism("G3")
@pytest.mark.case("V020")
@pytest.mark.parametrize(
    ("start", "pad", "labels", "right"),
    [(0, 0, [21, 5, 1, -100], [0, 21, 5, 1]), (2, 1, [0, 8, 9, 2, -100], [2, 0, 8, 9, 2])],
    ids=["T5", "BART"],
)
def test_decoder_inputs_are_the_labels_one_step_late(start, pad, labels, right):
    root = "architecture.decoder.input"
    spec = tiny("t5", {f"{root}.start_id": start, f"{root}.pad_id": pad})
    model = made(spec, "seq2seq_lm")
    seen: list[Tensor] = []
    model.decoder.input.table.register_forward_hook(lambda module, args, out: seen.append(args[0]))
    given = torch.tensor([labels])
    out = model(words(1, 6), labels=given)
    assert seen[-1].tolist() == [right]
    logs = out.logits.log_softmax(-1)[0].detach()
    real = [i for i, label in enumerate(labels) if label >= 0]  # the first among them
    assert float(out.loss.detach()) == pytest.approx(-sum(float(logs[i, labels[i]]) for i in real) / len(real))
    ends_in_a_hole = torch.tensor([[21, -100, 5]])
    model(words(1, 6), labels=ends_in_a_hole)
    assert seen[-1].tolist() == [[start, 21, pad]]


@pytest.mark.mechanism("C17")
def test_a_loss_without_any_target_is_zero_and_leaves_no_nan():
    logits = torch.randn(2, 3, 5, requires_grad=True)
    loss = head_loss("masked_lm", logits, torch.full((2, 3), -100))
    loss.backward()
    assert float(loss.detach()) == 0 and (logits.grad == 0).all()
