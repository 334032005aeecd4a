"""``variorum answer``: what a text says to a question, by a model that finds answers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import emit
from variorum.errors import NotFound, UsageError


def command(model: str, *, question: str, context: str, loading: Loading = PLAIN) -> None:
    """Answer a question from a text: with its characters in the text and its probability, or that there is no answer.

    Args:
        model: A directory that variorum train answer wrote; or a published model with a head that answers questions: a
            directory, or org/name in the cache.
        question: The question.
        context: The text that answers it, or a file that holds the text, or - for stdin.
    """
    text = _text(context)
    if not question.strip() or not text.strip():
        raise UsageError("there is nothing to answer", remedy="give a --question, and a --context that has words")
    answer = _answer(model, question, text, loading)
    emit(answer, human=None if answer["answer"] else _no_answer(answer.get("none")))


def _no_answer(chance: float | None) -> str:
    return "The text has no answer" + ("." if chance is None else f", with a probability of {chance:.1%}.")


def _text(context: str) -> str:
    if context == "-":
        return sys.stdin.read()
    if os.path.isfile(context):
        from variorum.text.readers import read_text

        return read_text(Path(context))
    if Path(context).suffix and len(context.split()) == 1:
        raise NotFound("no such file", where=context, remedy="give a file, or the text itself")
    return context


def _answer(model: str, question: str, text: str, loading: Loading) -> dict[str, Any]:
    """What a trained task says, or a published model."""
    from variorum.cli.loading import load as load_model
    from variorum.tasks.answer import Answerer
    from variorum.tasks.registry import STATE, load

    if not (Path(model) / STATE).is_file():
        return Answerer.ready(load_model(model, loading)).answers([(question, text)])[0]
    task = load(model, device=loading.device)
    if task.columns.inputs != Answerer.columns.inputs:
        raise UsageError(
            f"was trained to {task.kind}, and answers no questions", where=model,
            remedy="give a model of variorum train answer; this one's answers are given by variorum predict",
        )  # fmt: skip
    return task.answers([(question, text)])[0]
