"""Heads read the right state, and their losses are the figures one gets by hand."""

from __future__ import annotations

import math

import pytest
import torch

from tests.tiny_specs import DECODERS, ENCODERS, gap, made, tiny, words
from variorum.errors import UsageError
from variorum.parts.heads import head_loss

LEFT = torch.tensor([[1] * 9, [0] * 4 + [1] * 5])
RIGHT = torch.tensor([[1] * 9, [1] * 5 + [0] * 4])
READERS = [name for name in (*ENCODERS, *DECODERS) if "sequence_classification" in tiny(name).architecture.heads]


@pytest.mark.mechanism("H1", "A6")
@pytest.mark.parametrize("name", READERS)
def test_the_class_of_a_text_is_the_same_alone_and_padded_on_either_side(name):
    model, row = made(name, "sequence_classification"), words(1, 5)
    alone = model(row).logits
    assert alone.shape == (1, 2)
    for mask in (LEFT, RIGHT):
        ids = words(2, 9, seed=1)
        ids[1] = 0 if tiny(name).architecture.main.input.pad_id is None else tiny(name).architecture.main.input.pad_id
        ids[1][mask[1].bool()] = row[0]
        assert gap(model(ids, attention_mask=mask).logits[1:], alone) < 1e-12


@pytest.mark.mechanism("H1")
def test_a_decoder_reads_its_class_from_the_last_real_token():
    model, ids = made("gpt2", "sequence_classification"), words(2, 9)
    for mask, last in ((LEFT, [8, 8]), (RIGHT, [8, 4])):
        out = model(ids, attention_mask=mask)
        states = out.last_hidden_state[torch.arange(2), last]
        assert gap(out.logits, states @ model.heads["sequence_classification"].project.weight.T) < 1e-12


@pytest.mark.mechanism("H1")
def test_bert_reads_its_class_through_the_pooler_of_its_first_token_with_dropout_in_training_alone():
    model, ids = made("bert", "sequence_classification"), words(2, 9)
    out, head, pooler = model(ids), model.heads["sequence_classification"], model.pooler.dense
    pooled = (out.last_hidden_state[:, 0] @ pooler.weight.T + pooler.bias).tanh()
    assert gap(out.pooled, pooled) < 1e-12
    assert gap(out.logits, pooled @ head.project.weight.T + head.project.bias) < 1e-12
    assert tiny("bert").architecture.heads["sequence_classification"].dropout == 0.1
    model.train()
    assert gap(model(ids).logits, model(ids).logits) > 1e-3


def test_next_word_loss_compares_each_position_with_the_word_after_it():
    logits = torch.tensor([[[0.0, 0.0, 3.0], [0.0, 1.0, 0.0], [7.0, 7.0, 7.0]]])
    labels = torch.tensor([[0, 2, 1]])  # the first is given, the last position's score has no word after it
    right = (math.log(1 + 2 * math.exp(-3)) + math.log(1 + 2 * math.exp(-1))) / 2
    assert float(head_loss("causal_lm", logits, labels)) == pytest.approx(right)


def test_masked_positions_alone_are_averaged():
    logits = torch.tensor([[[2.0, 0.0], [0.0, 0.0], [9.0, 9.0]]])
    labels = torch.tensor([[0, 1, -100]])
    right = (math.log(1 + math.exp(-2)) + math.log(2)) / 2
    assert float(head_loss("masked_lm", logits, labels)) == pytest.approx(right)


def test_replaced_tokens_are_judged_at_every_real_token():
    logits, labels = torch.tensor([[0.0, 2.0, -1.0, 50.0]]), torch.tensor([[0, 1, 0, 1]])
    real = torch.tensor([[True, True, True, False]])
    right = (math.log(2) + math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-1))) / 3
    assert float(head_loss("replaced_token", logits, labels, real)) == pytest.approx(right)


def test_an_answer_is_scored_at_both_of_its_ends():
    model, ids = made("bert", "question_answering"), words(2, 9)
    ends = torch.tensor([[2, 4], [0, 8]])
    out = model(ids, labels=ends)
    right = 0.0
    for which, logits in enumerate((out.start_logits, out.end_logits)):
        assert logits.shape == (2, 9)
        right -= float(logits.log_softmax(-1).gather(1, ends[:, which, None]).mean().detach()) / 2
    assert float(out.loss.detach()) == pytest.approx(right)


@pytest.mark.mechanism("H7")
@pytest.mark.parametrize("name", [n for n in ENCODERS if "multiple_choice" in tiny(n).architecture.heads])
def test_each_choice_is_scored_as_if_alone_and_one_of_them_is_right(name):
    model, ids = made(name, "multiple_choice"), words(6, 9).view(2, 3, 9)
    ids[..., (3, 8)] = 2  # separators, for a model that looks for them
    answer = torch.tensor([2, 0])
    out = model(ids, labels=answer)
    alone = torch.stack([model(ids[:, c : c + 1]).logits[:, 0] for c in range(3)], 1)
    assert out.logits.shape == (2, 3) and gap(out.logits, alone) < 1e-12
    right = -alone.log_softmax(-1).gather(1, answer[:, None]).mean()
    assert float(out.loss.detach()) == pytest.approx(float(right.detach()))
    mask = torch.ones_like(ids)
    mask[0, 1, 5:] = 0
    changed = ids.clone()
    changed[0, 1, 5:] = 7
    assert gap(model(ids, attention_mask=mask).logits, model(changed, attention_mask=mask).logits) < 1e-12


@pytest.mark.mechanism("H7")
def test_only_choices_come_three_deep():
    with pytest.raises(UsageError, match=r"inputs measure \[2, 9\]; give \[B, C, T\]"):
        made("bert", "multiple_choice")(words(2, 9))
    with pytest.raises(UsageError, match=r"inputs measure \[1, 2, 9\]; give \[B, T\]"):
        made("bert", "sequence_classification")(words(2, 9)[None])


SEVERAL = "architecture.heads.sequence_classification"


@pytest.mark.mechanism("H4")
def test_numbers_are_regressed_and_several_labels_are_judged_each_alone():
    ids, numbers = words(2, 9), torch.tensor([[0.5, -1.0, 2.0], [0.0, 3.0, 1.0]])
    model = made(tiny("bert", {f"{SEVERAL}.labels": 3, f"{SEVERAL}.problem": "regression"}), "sequence_classification")
    out = model(ids, labels=numbers)
    assert float(out.loss.detach()) == pytest.approx(float(((out.logits - numbers) ** 2).mean().detach()))
    marks = (numbers > 0).long()
    model = made(tiny("bert", {f"{SEVERAL}.labels": 3, f"{SEVERAL}.problem": "multi_label"}), "sequence_classification")
    out = model(ids, labels=marks)
    chance = out.logits.sigmoid()
    right = -torch.where(marks.bool(), chance, 1 - chance).log().mean()
    assert float(out.loss.detach()) == pytest.approx(float(right.detach()))


@pytest.mark.mechanism("H4")
def test_labels_that_are_no_answer_to_the_problem_are_refused():
    logits = torch.zeros(2, 3)
    with pytest.raises(UsageError, match="and sequence_classification chooses one of 3"):
        head_loss("sequence_classification", logits, torch.tensor([0.0, 1.0]))
    with pytest.raises(UsageError, match=r"labels measure \[2\], multi_label takes \[2, 3\]"):
        head_loss("sequence_classification", logits, torch.tensor([0, 1]), problem="multi_label")
    assert float(head_loss("sequence_classification", logits[:, :1], torch.tensor([1, 1]), problem="regression")) == 1


def test_labels_of_a_floating_type_are_regressed():
    assert float(head_loss("sequence_classification", torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 1.0]))) == 2.5
