"""Texts continued or answered: generation from text to text, as the checkpoint says where the caller does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from variorum.inference.encode import SPARE, tokenizer_of
from variorum.inference.generate import KEPT, Keeping, generate, pieces, require_decoder
from variorum.inference.habits import asked
from variorum.inference.lines import Guesses
from variorum.inference.spelling import spelt
from variorum.inference.strategy import Strategy
from variorum.model import Model


@dataclasses.dataclass(frozen=True)
class Text:
    """A prompt and what was written after it, with the tokens behind it (see :class:`Written`)."""

    prompt: str
    text: str
    ids: list[int]
    tokens: list[str]
    log_probabilities: list[float]
    stopped: bool
    score: float | None = None
    guesses: Guesses | None = None


@dataclasses.dataclass(frozen=True)
class Request:
    """What a model is asked to write on.

    The model reads ``ids``; the new text is what ``before`` and the new ids give together beyond ``before`` alone.
    """

    prompt: str
    ids: list[int]
    before: list[int]


def requests(model: Model, texts: Sequence[str]) -> list[Request]:
    """Texts to continue, or, for an encoder-decoder, to answer.

    Raises:
        UsageError: a model without a tokenizer.
    """
    answers = model.spec.architecture.encoder is not None
    encodings = tokenizer_of(model).encode_batch(texts)
    return [
        Request(text, one.ids, [] if answers else one.ids) for text, one in zip(texts, encodings, strict=True)
    ]  # fmt: skip


def write(
    model: Model, texts: Sequence[str], *, language: str | None = None, keeping: Keeping = KEPT, **choice: Any
) -> list[Text]:
    """What the model writes after each text (an encoder-decoder: in answer to it).

    Args:
        model: a writer with its tokenizer.
        texts: what to continue, or to answer.
        language: the token of the language to write in, such as "de_DE".
        keeping: as in :func:`~variorum.inference.generate.generate`.
        choice: fields of a :class:`~variorum.inference.strategy.Strategy` and its parts; what is left out is as the
            checkpoint says, see :func:`variorum.inference.habits.asked`. A text ends before a stop string.

    Raises:
        UsageError: see :func:`generate` and :func:`~variorum.inference.habits.asked`; or a model without a tokenizer.
    """
    require_decoder(model)
    wanted = requests(model, texts)
    return fulfil(model, wanted, asked(model, [one.ids for one in wanted], choice, language=language), keeping)


def fulfil(model: Model, wanted: Sequence[Request], strategy: Strategy, keeping: Keeping = KEPT) -> list[Text]:
    """The texts that were asked for."""
    tokenizer, each = tokenizer_of(model), strategy.beams.num_return_sequences
    rows = []
    for number, one in enumerate(generate(model, [one.ids for one in wanted], strategy, keeping=keeping)):
        request = wanted[number // each]
        text = spelt(tokenizer, request.before, one.ids, strategy.stop_strings)
        names = [tokenizer.id_to_token(i) if i < tokenizer.vocab_size else SPARE for i in one.ids]
        rows.append(
            Text(request.prompt, text, one.ids, names, one.log_probabilities, one.stopped, one.score, one.guesses)
        )
    return rows


def stream(
    model: Model, text: str, *, language: str | None = None, keeping: Keeping = KEPT, **choice: Any
) -> Iterator[str]:
    """The text that :func:`write` gives, piece by piece: never a part of a character, nor of a stop string.

    Raises:
        UsageError: as :func:`write`, at once; and for a search, which knows its text only at its end.
    """
    require_decoder(model)
    [one] = requests(model, [text])
    return pieces(model, one.ids, one.before, asked(model, [one.ids], choice, language=language), keeping)
