"""Every model computes the same in every backend, value and gradient, wherever padding stands."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.tiny_specs import CAPPED, NAMES, SEQ2SEQ, gap, lm_head, made, run, tiny, words
from variorum.attention.backends import BACKENDS
from variorum.errors import UsageError
from variorum.model import Model

MASKS = {
    "whole": None,
    "left": [[1] * 12, [0] * 5 + [1] * 7],
    "right": [[1] * 12, [1] * 7 + [0] * 5],
    "empty row": [[1] * 12, [0] * 12],
}


def measured(model: Model, backend: str, mask: Tensor | None) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
    """States of the real tokens, and every parameter's gradient of the sum of their squares."""
    model.backend = backend
    model.zero_grad()
    states = run(model, words(2, 12), mask).last_hidden_state
    if mask is not None:
        read = mask if model.spec.architecture.encoder is None or not model.is_decoder else mask.amax(1, True)
        states = states * read[..., None].expand(-1, states.shape[1], 1)
    states.square().sum().backward()
    return states, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, mask


@pytest.mark.mechanism("A1", "A6", "A9", "A10")
@pytest.mark.parametrize("where", ["whole", "left", "right"])
@pytest.mark.parametrize("name", NAMES)
def test_every_backend_gives_the_definitions_states_and_gradients(name, where):
    model = made(name)
    mask = None if MASKS[where] is None else torch.tensor(MASKS[where])
    right, right_grads, _ = measured(model, "eager", mask)
    scale = max(float(g.abs().max()) for g in right_grads.values())
    for backend in ["tiled", "auto"] if name in CAPPED else [*BACKENDS, "auto"]:
        states, grads, _ = measured(model, backend, mask)
        assert gap(states, right) <= 1e-12
        assert grads.keys() == right_grads.keys()
        assert max(gap(grads[key], right_grads[key]) for key in grads) <= 1e-12 * max(1.0, scale)


@pytest.mark.mechanism("A9", "A10")
@pytest.mark.case("V012")
@pytest.mark.parametrize("name", ["modernbert", "mistral", "gemma-3"])
def test_texts_shorter_and_longer_than_a_window_are_read_the_same_in_every_backend(name):
    model = made(name)
    for length in range(1, 10):
        ids, states = words(1, length), []
        for model.backend in BACKENDS:
            states.append(model(ids).last_hidden_state)
        assert all(gap(states[0], other) < 1e-12 for other in states[1:])


@pytest.mark.mechanism("A14")
@pytest.mark.parametrize("name", CAPPED)
def test_a_capped_model_refuses_the_fused_backend_and_goes_around_it_by_itself(name):
    model = made(name)
    model.backend = "sdpa"
    with pytest.raises(UsageError, match="no softcap"):
        model(words(1, 4))
    model.backend = "auto"
    auto = model(words(1, 4)).last_hidden_state
    model.backend = "eager"
    assert gap(auto, model(words(1, 4)).last_hidden_state) == 0


@pytest.mark.mechanism("A6")
@pytest.mark.case("V004")
@pytest.mark.parametrize("where", ["empty row", "left"])
@pytest.mark.parametrize("name", NAMES)
def test_a_row_that_is_all_padding_leaves_everything_finite_and_the_other_row_alone(name, where):
    model, mask = made(name, lm_head(name)), torch.tensor(MASKS[where])
    ids = words(2, 12)
    alone = run(model, ids[:1]).last_hidden_state
    for backend in ("eager", "tiled") if name in CAPPED else BACKENDS:
        model.backend = backend
        model.zero_grad()
        given = {} if name in SEQ2SEQ else {"labels": ids.masked_fill(mask == 0, -100)}
        out = run(model, ids, mask, **given)
        shown = out.last_hidden_state if out.logits is None else out.logits  # an adaptive softmax gives a loss alone
        (shown.square().mean() + (0 if out.loss is None else out.loss)).backward()
        assert out.last_hidden_state.isfinite().all() and shown.isfinite().all()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
        assert gap(out.last_hidden_state[0], alone[0]) < 1e-6


@pytest.mark.mechanism("A6")
@pytest.mark.case("V004")
@pytest.mark.parametrize("backend", BACKENDS)
def test_attention_gives_nothing_to_a_row_that_is_all_padding(backend):
    model = made(tiny("bert", {"architecture.encoder.depth": 1}))
    model.backend = backend
    mixed: list[Tensor] = []
    model.encoder.layers[0].attention.out.register_forward_hook(lambda module, args, out: mixed.append(args[0]))
    model(words(2, 4), attention_mask=torch.tensor([[1] * 4, [0] * 4]))
    assert (mixed[0][1] == 0).all() and (mixed[0][0] != 0).any()
