"""Answering: a conversation by the checkpoint's chat template, and what the model writes as its turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from variorum.errors import UsageError
from variorum.inference.encode import tokenizer_of
from variorum.inference.generate import KEPT, Keeping, pieces, require_decoder
from variorum.inference.habits import asked
from variorum.inference.strategy import fields
from variorum.inference.texts import Request, Text, fulfil
from variorum.model import Model
from variorum.text.chat import Message, chat_ids

#: New tokens where neither the caller nor the checkpoint says how many.
TURN = 256


def answer(
    model: Model, messages: Sequence[Message], *, allow_special_text: bool = False, keeping: Keeping = KEPT,
    **options: Any,
) -> Text:  # fmt: skip
    """The model's turn after ``messages``; ``prompt`` is the last message.

    Args:
        messages: turns in order, each with ``role`` and ``content``.
        allow_special_text: let special tokens spelt out in a message be such; otherwise they are text.
        keeping: as in :func:`~variorum.inference.generate.generate`; with prefixes, earlier turns are not read again.
        options: fields of a :class:`~variorum.inference.strategy.Strategy` and its parts, as for
            :func:`variorum.inference.texts.write`; what else is named goes to the template, such as ``tools``.

    Raises:
        UsageError: the model cannot write, has no chat template, or its template refuses the conversation.
        DamagedFile: the template fails.
    """
    request, choice = _request(model, messages, allow_special_text, options)
    return fulfil(model, [request], asked(model, [request.ids], choice, length=TURN), keeping)[0]


def stream(
    model: Model, messages: Sequence[Message], *, allow_special_text: bool = False, keeping: Keeping = KEPT,
    **options: Any,
) -> Iterator[str]:  # fmt: skip
    """The text of :func:`answer`, piece by piece; see :func:`variorum.inference.texts.stream`."""
    request, choice = _request(model, messages, allow_special_text, options)
    return pieces(model, request.ids, request.before, asked(model, [request.ids], choice, length=TURN), keeping)


def _request(
    model: Model, messages: Sequence[Message], allow_special_text: bool, options: dict[str, Any]
) -> tuple[Request, dict[str, Any]]:
    """What is asked, and the part of ``options`` that is about how to answer."""
    require_decoder(model)
    if model.spec.architecture.encoder is not None:
        raise UsageError(f"{model.spec.name} answers texts, not conversations", remedy="leave out chat")
    choice = {name: value for name, value in options.items() if name in fields() or name == "do_sample"}
    variables = {name: value for name, value in options.items() if name not in choice}
    ids = chat_ids(tokenizer_of(model), messages, allow_special_text=allow_special_text, **variables)
    return Request(str(messages[-1].get("content", "")), ids, []), choice
