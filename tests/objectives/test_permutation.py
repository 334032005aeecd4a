"""Permutation language modelling: who may see whom, and what is asked, as the published collator has it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tests.objectives.corpus import END, FIRST, PAD, SYMBOLS
from tests.objectives.test_every_pair import asked
from tests.tiny_specs import shaken
from variorum.builder import build
from variorum.objectives import objective_for
from variorum.objectives.base import IGNORED
from variorum.objectives.permutation import Permutation, hiding, questions
from variorum.spec.recipe import Masking

LAST = Masking(rate=1 / 6, mask=1.0, random=0.0, span=3.0)


@pytest.mark.mechanism("O5")
@pytest.mark.mechanism("A12")
def test_who_may_see_whom_is_what_the_published_collator_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import DataCollatorForPermutationLanguageModeling

    special = {FIRST, END, PAD}
    tokenizer = SimpleNamespace(
        mask_token="<mask>", mask_token_id=3, pad_token="<pad>", pad_token_id=PAD,
        get_special_tokens_mask=lambda ids, already_has_special_tokens: [int(id in special) for id in ids],
    )  # fmt: skip
    orders, draw = [], torch.randperm

    def remembered(count: int, **given: object) -> torch.Tensor:
        orders.append(draw(count, **given))
        return orders[-1]

    monkeypatch.setattr(torch, "randperm", remembered)
    torch.manual_seed(0)
    ids = torch.randint(6, 44, (6, 24))
    ids[:, -1], ids[:, -2] = END, FIRST
    ids[3:, :5] = PAD
    collator = DataCollatorForPermutationLanguageModeling(tokenizer=tokenizer)
    _, perm_mask, _, labels = collator.torch_mask_tokens(ids.clone())
    words = SYMBOLS.eligible(ids, None, None)
    halves = [torch.stack((torch.arange(12), torch.arange(12, 24)), 1)[order].T.flatten() for order in orders]
    chosen = labels != IGNORED
    assert torch.equal(hiding(chosen, words, torch.stack(halves)), perm_mask.long())
    assert torch.equal(ids.masked_fill(~chosen, IGNORED), labels)


@pytest.mark.mechanism("O5")
def test_one_word_in_six_is_asked_in_runs_of_one_to_five() -> None:
    ids = torch.randint(6, 44, (50, 600), generator=torch.Generator().manual_seed(0))
    example = Permutation(LAST, SYMBOLS).corrupt({"input_ids": ids}, torch.Generator().manual_seed(0))
    assert example.count / ids.numel() == pytest.approx(1 / 6, rel=0.05)
    hidden = example.inputs["perm_mask"].bool().any(1)
    begins = hidden & ~torch.nn.functional.pad(hidden, (1, 0))[:, :-1]
    assert 2.9 < int(hidden.sum()) / int(begins.sum()) < 3.6  # runs of mean 3, some of which touch
    assert torch.equal(example.inputs["input_ids"], ids)


def test_questions_are_the_chosen_tokens_and_spare_rows_ask_nothing() -> None:
    chosen = torch.tensor([[False, True, True], [False, False, True]])
    mapping, targets = questions(chosen, torch.tensor([[7, 8, 9], [10, 11, 12]]))
    assert targets.tolist() == [[8, 9], [12, IGNORED]]
    assert mapping[0].tolist() == [[0, 1, 0], [0, 0, 1]]
    assert mapping[1, 0].tolist() == [0, 0, 1]


@pytest.mark.mechanism("O5")
def test_a_question_sees_neither_its_own_token_nor_those_that_come_later() -> None:
    """By gradient: what a query reads is what comes before it in the order, and every token without a question."""
    spec = asked("xlnet", "permutation_lm")
    model = shaken(build(spec, head="permutation_lm"))
    objective = objective_for(spec, SYMBOLS)
    ids = torch.randint(6, 44, (1, 30), generator=torch.Generator().manual_seed(2))
    example = objective.corrupt({"input_ids": ids}, torch.Generator().manual_seed(6))
    given = {name: value for name, value in example.inputs.items() if name != "input_ids"}
    vectors = model.encoder.input.table(ids).detach().requires_grad_()
    states = model(inputs_embeds=vectors, **{k: v.double() if v.is_floating_point() else v for k, v in given.items()})
    mask, places = given["perm_mask"][0].bool(), given["target_mapping"][0].argmax(-1).tolist()
    assert len(places) > 1
    for query, place in enumerate(places):
        (grad,) = torch.autograd.grad(states.logits[0, query].square().sum(), vectors, retain_graph=True)
        reached = grad[0].abs().sum(-1) > 0
        assert not reached[place]
        hidden = [j for j in range(30) if mask[place, j]]
        assert place in hidden
        alone = [j for j in range(30) if not mask[:, j].any()]
        assert all(reached[j] for j in alone)
