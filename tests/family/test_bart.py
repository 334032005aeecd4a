"""What is peculiar to BART and its kin: where decoders start, which state judges, what positions padding moves."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers.models.bart import modeling_bart
from transformers.models.mbart import modeling_mbart

from tests.tiny_specs import made, words
from variorum.attention.reading import shifted
from variorum.family import find

PAD = 1


@pytest.mark.mechanism("G3")
@pytest.mark.case("V020")
@pytest.mark.parametrize("name", ["bart", "mbart", "pegasus"])
def test_decoder_inputs_are_those_of_the_released_code(name: str) -> None:
    """mBART's own last token, its language, comes to the front; the others begin with one id."""
    inputs = find(name).architecture.main.tokens
    pad = inputs.pad_id
    labels = torch.tensor([[8, 9, 2, 44], [8, 2, 44, -100], [2, 44, -100, -100], [8, -100, 9, 44]])
    if name == "mbart":
        right = modeling_mbart.shift_tokens_right(labels, pad)
    else:
        right = modeling_bart.shift_tokens_right(labels, pad, inputs.start_id)
    # The released mBART counts tokens to find the last; a gap between tokens misleads it.
    rows = slice(0, 3) if name == "mbart" else slice(None)
    assert torch.equal(shifted(inputs, labels, None)[rows], right[rows])
    assert shifted(inputs, labels, None)[3].tolist() == [44 if name == "mbart" else inputs.start_id, 8, pad, 9]


def read(model: torch.nn.Module, ids: Tensor, mask: Tensor | None = None) -> list[list[int]]:
    """The decoder inputs of heads that re-read the text."""
    seen: list[list[list[int]]] = []
    hook = model.decoder.input.table.register_forward_hook(lambda module, args, out: seen.append(args[0].tolist()))
    model(ids, attention_mask=mask)
    hook.remove()
    return seen[-1]


@pytest.mark.mechanism("A6", "H1")
@pytest.mark.parametrize("name", ["bart", "t5", "mt5"])
def test_a_head_on_the_decoder_judges_a_text_the_same_however_it_is_padded(name: str) -> None:
    model = made(name, "sequence_classification")
    spec = model.spec.architecture
    end, pad, start = spec.heads["sequence_classification"].end_id, spec.main.tokens.pad_id, spec.main.tokens.start_id
    text = torch.tensor([[11, 12, 13, end]])
    alone, fill = model(text).logits[0], torch.full((1, 2), pad)
    for left in (True, False):
        ids = torch.cat((fill, text) if left else (text, fill), 1)
        mask = torch.cat((torch.zeros(1, 2), torch.ones(1, 4)) if left else (torch.ones(1, 4), torch.zeros(1, 2)), 1)
        assert read(model, ids, mask)[0][2 if left else 0 :][:4] == [start, 11, 12, 13]
        assert torch.allclose(model(ids, attention_mask=mask).logits[0], alone, rtol=0, atol=1e-12)


@pytest.mark.mechanism("H1")
def test_the_state_at_the_last_end_judges_and_what_follows_it_does_not() -> None:
    model = made("bart", "sequence_classification")
    text = torch.tensor([[11, 2, 12, 2, 13, 14]])
    states = model(text).last_hidden_state[0]
    head = model.heads["sequence_classification"]

    def judged(state: Tensor) -> Tensor:
        return head.project(torch.tanh(head.transform.dense(state)))

    assert torch.allclose(model(text).logits[0], judged(states[3]), rtol=0, atol=1e-12)
    endless = torch.tensor([[11, 12, 13]])
    assert torch.allclose(model(endless).logits[0], judged(model(endless).last_hidden_state[0, 2]), rtol=0, atol=1e-12)
    given = model(text, decoder_input_ids=words(1, 3))  # states of another text: its last
    assert torch.allclose(given.logits[0], judged(given.last_hidden_state[0, 2]), rtol=0, atol=1e-12)


@pytest.mark.mechanism("P3", "N8")
def test_positions_are_counted_from_two_and_only_over_tokens() -> None:
    model, ids = made("bart"), words(1, 4)
    seen: list[Tensor] = []
    model.encoder.input.positions.register_forward_hook(lambda module, args, out: seen.append(args[0]))
    model(ids, decoder_input_ids=ids)
    model(torch.cat((torch.full((1, 2), PAD), ids), 1), attention_mask=torch.tensor([[0, 0, 1, 1, 1, 1]]),
          decoder_input_ids=ids)  # fmt: skip
    assert seen[0].tolist() == [[2, 3, 4, 5]]
    assert seen[1].tolist()[0][2:] == [2, 3, 4, 5]


@pytest.mark.mechanism("P2")
def test_pegasus_places_all_sines_before_the_cosines_and_scales_its_table() -> None:
    model = made("pegasus")
    inputs = model.encoder.input
    table = inputs.table(torch.tensor([[9]]))
    added = inputs(table, torch.tensor([[5]])) - 32**0.5 * table
    waves = 5 / 10_000 ** (torch.arange(0, 32, 2, dtype=torch.float64) / 32)
    assert torch.allclose(added[0, 0], torch.cat((waves.sin(), waves.cos())), rtol=0, atol=1e-13)


def test_padding_teaches_pegasus_only_as_an_output() -> None:
    """Its decoder starts with the padding token, whose vector looks up as untrained in the released code."""
    for name, learns in (("pegasus", False), ("t5", True)):
        model, ids = made(name), words(1, 5)
        start = torch.tensor([[0, 11, 12]])
        model(ids, decoder_input_ids=start).last_hidden_state.square().sum().backward()
        gradient = model.encoder.input.table.weight.grad
        assert bool(gradient[0].abs().max() > 0) is learns
        assert float(gradient[11].abs().max()) > 0
