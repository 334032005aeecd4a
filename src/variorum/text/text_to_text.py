"""What T5 reads and writes: every task as a text with its name in front, numbers as words, hidden spans as sentinels.

Plain strings and lists; ids are made of them by a tokenizer, and which spans are hidden is for an objective to draw.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from variorum.errors import UsageError, nearest

T = TypeVar("T")
#: Task -> its fields in the order in which they are said (Raffel et al. 2019, appendix D).
FIELDS: dict[str, tuple[str, ...]] = {
    "cola": ("sentence",), "sst2": ("sentence",), "mrpc": ("sentence1", "sentence2"),
    "stsb": ("sentence1", "sentence2"),
    "qqp": ("question1", "question2"), "mnli": ("hypothesis", "premise"), "qnli": ("question", "sentence"),
    "rte": ("sentence1", "sentence2"), "wnli": ("sentence1", "sentence2"), "cb": ("hypothesis", "premise"),
    "copa": ("choice1", "choice2", "premise", "question"), "multirc": ("question", "answer", "paragraph"),
    "wic": ("pos", "sentence1", "sentence2", "word"), "boolq": ("passage", "question"),
    "record": ("query", "entities", "passage"),
}  # fmt: skip
#: STS-B's scores, from 1 to 5, are written as the nearest multiple of this.
STEP = 0.2
_SENTINEL = re.compile(r"<extra_id_(\d+)>")


def sentinel(number: int) -> str:
    """The token that stands for the hidden span ``number``, the first of which is 0."""
    return f"<extra_id_{number}>"


def asked(task: str, **fields: str) -> str:
    """A task of GLUE or SuperGLUE as text: ``asked("stsb", sentence1=a, sentence2=b)`` is "stsb sentence1: a …".

    Raises:
        UsageError: no such task, or other fields than it has.
    """
    if task not in FIELDS:
        raise UsageError(f"no task is called {task!r}", remedy=nearest(task, FIELDS) or f"one of {', '.join(FIELDS)}")
    wanted = FIELDS[task]
    if fields.keys() != set(wanted):
        raise UsageError(f"{task} has {' and '.join(wanted)}, not {' and '.join(fields) or 'nothing'}", where=task)
    return " ".join([task, *(f"{name}: {fields[name]}" for name in wanted)])


def translate(text: str, source: str, target: str) -> str:
    """A text to translate, the languages by their English names."""
    return f"translate {source} to {target}: {text}"


def summarize(text: str) -> str:
    """A text to summarise."""
    return f"summarize: {text}"


def answer(question: str, context: str) -> str:
    """A question to answer from a text (SQuAD)."""
    return f"question: {question} context: {context}"


def number_text(value: float, step: float = STEP) -> str:
    """A number as the word that stands for it: the nearest multiple of ``step``, halves to the even one."""
    return f"{round(value / step) * step:.1f}"


def text_number(text: str) -> float | None:
    """The number that a model wrote; ``None`` where it wrote something else, which then is a wrong answer."""
    found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*", text)
    return float(found[1]) if found else None


def hidden(
    tokens: Sequence[T], spans: Iterable[tuple[int, int]], mark: Callable[[int], T]
) -> tuple[list[T], list[T]]:  # fmt: skip
    """Tokens with ``spans`` hidden, and the spans alone: what is read, and what is to be written.

    Args:
        tokens: words or ids.
        spans: [begin, end) of each, in order, none empty and no two touching.
        mark: the token that stands for the span of a number; the one after the last closes what is written.

    Raises:
        UsageError: spans that are empty, out of order, touching, or beyond the text.
    """
    read: list[T] = []
    written: list[T] = []
    at = number = 0
    for begin, end in spans:
        if not at + (number > 0) <= begin < end <= len(tokens):
            raise UsageError(
                f"no span {begin}:{end} of {len(tokens)} tokens fits behind token {at}",
                remedy="give spans in order, with a token between any two",
            )
        read += [*tokens[at:begin], mark(number)]
        written += [mark(number), *tokens[begin:end]]
        at, number = end, number + 1
    return [*read, *tokens[at:]], [*written, mark(number)]


def restored(read: Sequence[T], written: Sequence[T], number: Callable[[T], int | None]) -> list[T]:
    """The tokens that :func:`hidden` took apart; ``number`` says which span a token stands for, if any.

    A span that was not written is missing from the text.
    """
    spans: dict[int, list[T]] = {}
    current: list[T] = []
    for token in written:
        which = number(token)
        if which is None:
            current.append(token)
        else:
            current = spans.setdefault(which, [])
    whole: list[T] = []
    for token in read:
        which = number(token)
        whole += [token] if which is None else spans.get(which, [])
    return whole


def hidden_words(text: str, spans: Iterable[tuple[int, int]]) -> tuple[str, str]:
    """:func:`hidden` for the words of a text, between spaces, with T5's sentinels."""
    read, written = hidden(text.split(" "), spans, sentinel)
    return " ".join(read), " ".join(written)


def restored_words(read: str, written: str) -> str:
    """The text that :func:`hidden_words` took apart."""
    return " ".join(restored(read.split(" "), written.split(" "), sentinel_number))


def sentinel_number(token: str) -> int | None:
    """Which span a token stands for; ``None`` for words."""
    found = _SENTINEL.fullmatch(token)
    return int(found[1]) if found else None
