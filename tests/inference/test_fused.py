"""An encoder that reads in its fused form reads what its plain form reads, whichever model of the family it is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.gates import narrow_limit
from tests.test_model_packed import LENGTHS, segments, texts
from tests.tiny_specs import ENCODERS, SEQ2SEQ, made
from variorum.attention.reading import Reading
from variorum.inference.fused import FusedBlock, fused, is_current
from variorum.inference.vectors import reading_form
from variorum.model import Model

READERS = (*ENCODERS, *SEQ2SEQ)
SEEDS = (0, 1, 2)


def states(model: Model) -> Tensor:
    """Of all texts as one stream, [total, D]."""
    rows = texts(model)
    kinds = segments(model, rows).get("token_type_ids")
    stream = Reading(
        data=torch.cat(rows)[None], segments=None if kinds is None else torch.cat(kinds)[None], lengths=LENGTHS
    )
    return model.read(stream)[0][0]


@pytest.mark.parametrize("name", READERS)
@torch.no_grad()
def test_the_fused_form_is_the_plain_one(name: str) -> None:
    plain_errors, errors = [], []
    for seed in SEEDS:
        model = made(name, seed=seed)
        right = states(model)
        spread = float(right.std())
        assert float((states(fused(model)) - right).abs().max()) <= 1e-12 * (1 + spread)
        narrow = model.float()
        for form, found in ((narrow, plain_errors), (fused(narrow), errors)):
            found.append(float((states(form) - right).abs().max()) / spread)
    assert max(errors) <= narrow_limit(max(plain_errors))


@pytest.mark.parametrize("name", READERS)
@torch.no_grad()
def test_one_text_alone_is_read_in_the_fused_form_too(name: str) -> None:
    model = made(name)
    quick = fused(model)
    for row in texts(model):
        alone = Reading(data=row[None])
        right = model.read(alone)[0]
        assert float((quick.read(alone)[0] - right).abs().max()) <= 1e-12 * (1 + float(right.abs().max()))


@torch.no_grad()
def test_what_is_not_plain_reading_runs_the_plain_blocks() -> None:
    model = made("bert")
    quick, rows = fused(model), torch.cat(texts()[1:3])[None].view(2, -1)
    mask = torch.ones_like(rows)
    mask[1, 9:] = 0
    for given in ({"attention_mask": mask}, {"output_attentions": True}, {"position_ids": rows % 9}):
        right, found = model(rows, **given), quick(rows, **given)
        assert torch.equal(right.last_hidden_state, found.last_hidden_state)
    with torch.enable_grad():
        quick(rows[:1]).last_hidden_state.sum().backward()
    assert model.encoder.layers[0].feedforward.up.weight.grad is not None


def test_a_fused_form_holds_no_weights_of_its_own_and_follows_the_model() -> None:
    model = made("bert")
    quick = reading_form(model)
    assert quick is not model and reading_form(model) is quick and reading_form(quick) is quick
    assert [p.data_ptr() for p in quick.parameters()] == [p.data_ptr() for p in model.parameters()]
    with torch.no_grad():
        before = states(quick)
        model.encoder.layers[2].feedforward.up.weight.mul_(1.5)
        assert not torch.equal(states(quick), before)
        assert float((states(quick) - states(model)).abs().max()) < 1e-12
    model.encoder.layers = model.encoder.layers[:2]
    assert not is_current(quick, model)
    assert len(reading_form(model).encoder.layers) == 2


def test_a_decoder_has_no_fused_form() -> None:
    model = made("gpt2")
    assert fused(model) is model and reading_form(model) is model
    assert not any(isinstance(part, FusedBlock) for part in model.modules())


@torch.no_grad()
def test_hooks_on_a_projection_are_heard() -> None:
    model = made("bert")
    heard: list[int] = []
    hook = model.encoder.layers[0].feedforward.up.register_forward_hook(lambda *_: heard.append(1))
    states(reading_form(model))
    hook.remove()
    assert heard == [1]


@pytest.mark.parametrize("name", READERS)
@torch.no_grad()
def test_frozen_weights_give_the_same_states_of_one_text(name: str) -> None:
    model = made(name)
    alone = Reading(data=texts(model)[0][None])
    right = model.read(alone)[0]
    narrow = model.float()
    error, own = (
        float((form.read(alone)[0] - right).square().mean().sqrt()) for form in (narrow, fused(narrow, frozen=True))
    )
    spread = float(right.std())
    assert own <= narrow_limit(error / spread) * spread
