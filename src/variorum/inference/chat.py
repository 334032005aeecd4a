"""Answering: a conversation by the checkpoint's chat template, and what the model writes as its turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from variorum.errors import UsageError
from variorum.inference.encode import SPARE, tokenizer_of
from variorum.inference.generate import Text, end_ids, generate, require_decoder, stopped
from variorum.inference.sampling import GREEDY, Sampling
from variorum.model import Model
from variorum.text.chat import Message, chat_ids


def answer(
    model: Model, messages: Sequence[Message], *, max_new_tokens: int = 256, allow_special_text: bool = False,
    sampling: Sampling = GREEDY, stop: Sequence[str] = (), **variables: Any,
) -> Text:  # fmt: skip
    """The model's turn after ``messages``; ``prompt`` is the last message.

    Args:
        messages: turns in order, each with ``role`` and ``content``.
        max_new_tokens: at most so many, the end token included.
        sampling: how each token is chosen. stop: the turn ends before the first of these.
        allow_special_text: let special tokens spelt out in a message be such; otherwise they are text.
        variables: what the template reads besides, such as ``tools``.

    Raises:
        UsageError: the model cannot write, has no chat template, or its template refuses the conversation.
        DamagedFile: the template fails.
    """
    require_decoder(model)
    if model.spec.architecture.encoder is not None:
        raise UsageError(f"{model.spec.name} answers texts, not conversations", remedy="leave out chat")
    tokenizer = tokenizer_of(model)
    prompt = chat_ids(tokenizer, messages, allow_special_text=allow_special_text, **variables)

    def said(ids: Sequence[int]) -> str:
        return str(tokenizer.decode([id for id in ids if id < tokenizer.vocab_size]))

    [found] = generate(
        model, [prompt], max_new_tokens=max_new_tokens, end_ids=end_ids(model), sampling=sampling,
        ended=lambda _, ids: stopped(said(ids), stop) is not None,
    )  # fmt: skip
    text = said(found.ids)
    names = [tokenizer.id_to_token(id) if id < tokenizer.vocab_size else SPARE for id in found.ids]
    last = str(messages[-1].get("content", ""))
    return Text(last, text[: stopped(text, stop)], found.ids, names, found.log_probabilities, found.stopped)
