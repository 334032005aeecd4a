"""XLNet's answers: the places, the chances and the losses of the released class, and no answer in padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import variorum
from tests.parity import oracle
from tests.parity.models.xlnet import XLNET
from tests.tiny_specs import gap, made, words


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The released class with random weights, and ours with the same, in float64."""
    directory: Path = tmp_path_factory.mktemp("xlnet")
    theirs = transformers.XLNetForQuestionAnswering(transformers.XLNetConfig(vocab_size=97, **XLNET))
    oracle.randomise(theirs, 0)
    oracle.save(theirs, directory)
    model = variorum.load(directory, dtype="float64", backend="eager")
    assert model.head_names == ("answer_span",)
    return oracle.load64(directory, "XLNetForQuestionAnswering"), model


@pytest.mark.mechanism("H3")
def test_starts_ends_and_the_chance_of_no_answer_are_the_released_ones(pair):
    theirs, model = pair
    ids = words(3, 17)
    with oracle.exact():
        right = theirs(ids)
    answers = model(ids).answers
    assert torch.equal(answers.starts, right.start_top_index)
    assert torch.equal(answers.ends.transpose(1, 2).flatten(1), right.end_top_index)
    assert gap(answers.no_answer, right.cls_logits) < 1e-12
    assert answers.starts.shape == (3, 3) and answers.ends.shape == (3, 3, 2)
    assert bool((answers.start_scores.diff(dim=-1) <= 0).all())


@pytest.mark.mechanism("H3")
@pytest.mark.parametrize("none", [None, torch.tensor([1.0, 0.0, 1.0])])
def test_losses_are_the_released_ones(pair, none):
    theirs, model = pair
    ids, start, end = words(3, 17), torch.tensor([2, 9, 0]), torch.tensor([5, 9, 16])
    more = {} if none is None else {"is_impossible": none.double(), "cls_index": torch.tensor([16, 16, 16])}
    with oracle.exact():
        right = theirs(ids, start_positions=start, end_positions=end, **more).loss
    labels = torch.stack([start, end, *([] if none is None else [none.long()])], 1)
    assert float(model(ids, labels=labels).loss.detach()) == pytest.approx(float(right.detach()), rel=1e-12)


@pytest.mark.mechanism("A6")
def test_padding_neither_begins_nor_ends_an_answer_nor_says_that_there_is_none():
    model, row = made("xlnet", "answer_span"), words(1, 6)
    alone = model(row).answers
    for mask, shift in ((torch.tensor([[0] * 3 + [1] * 6]), 3), (torch.tensor([[1] * 6 + [0] * 3]), 0)):
        ids = torch.full((1, 9), 5)
        ids[mask.bool()] = row[0]
        out = model(ids, attention_mask=mask)
        assert torch.equal(out.answers.starts, alone.starts + shift)
        assert gap(out.answers.start_scores, alone.start_scores) < 1e-12
        assert gap(out.answers.end_scores, alone.end_scores) < 1e-12
        assert gap(out.answers.no_answer, alone.no_answer) < 1e-12
        assert bool((out.start_logits[~mask.bool()] == -torch.inf).all())


def test_a_text_shorter_than_the_answers_asked_for_has_fewer():
    answers = made("xlnet", "answer_span")(words(1, 3)).answers
    assert answers.starts.shape == (1, 3) and answers.ends.shape == (1, 3, 3)
    assert float(answers.end_scores.detach().sum()) == pytest.approx(3)
