"""Texts laid end to end in one row score as they do padded and alone: the same model, without the padding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.tiny_specs import DECODERS, ENCODERS, SEQ2SEQ, VOCAB, made, tiny
from variorum.errors import UsageError
from variorum.model import Model, Output

LENGTHS = (23, 14, 14, 9, 9, 9, 1)
CASES = [(name, head) for name in ENCODERS for head in (None, *tiny(name).architecture.heads)]
CASES = [(name, head) for name, head in CASES if head != "multiple_choice"]


def texts(model: Model | None = None) -> list[Tensor]:
    """Random texts, with the token that its head looks for where it looks for one."""
    generator = torch.Generator().manual_seed(3)
    rows = [torch.randint(6, VOCAB, (length,), generator=generator) for length in LENGTHS]
    heads = () if model is None else model.spec.architecture.heads.items()
    for _, head in ((name, head) for name, head in heads if name in model.head_names):  # type: ignore[union-attr]
        separator = getattr(getattr(head, "global_tokens", None), "separator", None)
        for row in rows if separator is not None else ():
            row[len(row) // 3] = separator
    return rows


def segments(model: Model, rows: list[Tensor]) -> dict[str, list[Tensor]]:
    encoder = model.spec.architecture.encoder
    if encoder is None or getattr(encoder.input, "segments", 0) < 2:
        return {}
    return {"token_type_ids": [(torch.arange(len(row)) > len(row) // 2).long() for row in rows]}


def packed(model: Model, rows: list[Tensor], **more: object) -> Output:
    given = {name: torch.cat(value)[None] for name, value in segments(model, rows).items()}
    return model(torch.cat(rows)[None], lengths=[len(row) for row in rows], **given, **more)


def alone(model: Model, rows: list[Tensor]) -> list[Output]:
    kinds = segments(model, rows)
    return [model(row[None], **{name: value[i][None] for name, value in kinds.items()}) for i, row in enumerate(rows)]


def apart(found: Tensor, model: Model) -> list[Tensor]:
    """Rows of tokens split into texts; one row for each text as it is."""
    return list(found.split(1)) if len(found) == len(LENGTHS) else list(found.split(LENGTHS, 1))


@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize(("name", "head"), CASES)
@torch.no_grad()
def test_packed_is_alone(name: str, head: str | None, backend: str) -> None:
    model = made(name, head)
    model.backend = backend
    rows = texts(model)
    together, single = packed(model, rows), alone(model, rows)
    for stream, one in zip(apart(together.last_hidden_state, model), single, strict=True):
        assert float((stream - one.last_hidden_state).abs().max()) <= 1e-12 * float(one.last_hidden_state.std() + 1)
    if head is not None:
        assert together.logits is not None
        for stream, one in zip(apart(together.logits, model), single, strict=True):
            assert one.logits is not None
            assert float((stream - one.logits).abs().max()) <= 1e-12 * max(1.0, float(one.logits.abs().max()))


@pytest.mark.parametrize(
    "name", [n for n in DECODERS if tiny(n).architecture.decoder and not tiny(n).architecture.decoder.memory]
)
@torch.no_grad()
def test_a_decoder_reads_packed_texts_as_it_reads_each(name: str) -> None:
    model, rows = made(name), texts()
    for stream, one in zip(apart(packed(model, rows).last_hidden_state, model), alone(model, rows), strict=True):
        assert float((stream - one.last_hidden_state).abs().max()) <= 1e-12 * float(one.last_hidden_state.std() + 1)


@pytest.mark.parametrize("name", SEQ2SEQ)
@torch.no_grad()
def test_an_encoder_decoder_answers_packed_sources(name: str) -> None:
    model, rows = made(name), texts()
    answers = torch.randint(6, VOCAB, (len(rows), 4))
    together = packed(model, rows, decoder_input_ids=answers)
    for row, answer, found in zip(rows, answers, together.last_hidden_state, strict=True):
        one = model(row[None], decoder_input_ids=answer[None]).last_hidden_state[0]
        assert float((found - one).abs().max()) <= 1e-12 * float(one.std() + 1)


def test_what_cannot_be_packed_says_so() -> None:
    rows = texts()
    with pytest.raises(UsageError, match="end to end"):
        packed(made("transformer-xl"), rows)
    with pytest.raises(UsageError, match="texts of 79 tokens"):
        made("bert")(torch.cat(rows)[None][:, 1:], lengths=LENGTHS)
    with pytest.raises(UsageError, match="maps"):
        packed(made("bert"), rows, output_attentions=True)
