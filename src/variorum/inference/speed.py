"""What a model costs a user on this machine and these texts: the time to load it, one text, many texts, memory.

The model is called as anyone would call it. Figures of one run: what else the machine does is in them.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import torch

from variorum.errors import UsageError
from variorum.inference.generate import generate
from variorum.inference.peak import peak_bytes
from variorum.model import Model

Unit = Literal["seconds", "texts/s", "tokens/s", "bytes"]


class Reader(Protocol):
    """Text in, vectors out."""

    tokenizer: Any

    def embed(self, texts: Sequence[str]) -> torch.Tensor: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured.

    Args:
        singles: texts that are read, or continued, one at a time; those given are gone through again if they are fewer.
        rounds: passes over all texts.
        new_tokens: written after each prompt.
    """

    singles: int = 30
    rounds: int = 3
    new_tokens: int = 32


@dataclasses.dataclass(frozen=True)
class Figure:
    """One figure, for people by its name."""

    figure: str
    unit: Unit
    value: float


USUAL = Effort()


def speed(load: Callable[[], Any], texts: Sequence[str], effort: Effort = USUAL) -> list[Figure]:
    """Load a model, read ``texts`` with it if it is an encoder, continue them if it writes, and tell what that took.

    The first text is worked on once before the clock runs.

    Args:
        load: gives the model, with its tokenizer; a model of :mod:`variorum.face`.
        texts: what to read or to continue; their tokens are counted by the model's own tokenizer.

    Raises:
        UsageError: no text, or a model without a tokenizer.
    """
    if not any(texts):
        raise UsageError("there is no text to measure with", remedy="give one that is not empty")
    begin = time.perf_counter()
    model = load()
    loaded = time.perf_counter() - begin
    writes = isinstance(model, Model) and bool({"causal_lm", "seq2seq_lm"} & set(model.head_names))
    found = _writing(model, texts, effort) if writes else _reading(model, texts, effort)
    return [Figure("load", "seconds", loaded), *found, Figure("peak memory of the process", "bytes", peak_bytes())]


def _reading(model: Reader, texts: Sequence[str], effort: Effort) -> list[Figure]:
    tokens = sum(map(len, _encoded(model, texts)))
    model.embed(texts[:1])
    singles = [_seconds(model.embed, [text]) for text in _cycled(texts, effort.singles)]
    whole = statistics.median(_seconds(model.embed, texts) for _ in range(effort.rounds))
    return [
        *_spread("one text", singles),
        Figure("all texts", "texts/s", len(texts) / whole),
        Figure("all texts", "tokens/s", tokens / whole),
    ]


def _writing(model: Model, texts: Sequence[str], effort: Effort) -> list[Figure]:
    prompts = [ids for ids in _encoded(model, texts) if ids]

    def write(prompt: list[int], count: int) -> None:
        generate(model, [prompt], max_new_tokens=count)

    write(prompts[0], 2)
    firsts, rates, reads = [], [], []
    for prompt in _cycled(prompts, max(1, effort.singles // 3)):
        first, whole = _seconds(write, prompt, 1), _seconds(write, prompt, 1 + effort.new_tokens)
        firsts.append(first)
        reads.append(len(prompt) / first)
        rates.append(effort.new_tokens / max(whole - first, 1e-9))
    return [
        *_spread("first token", firsts),
        Figure("prompt read", "tokens/s", statistics.median(reads)),
        Figure("text written", "tokens/s", statistics.median(rates)),
    ]


def _encoded(model: Any, texts: Sequence[str]) -> list[list[int]]:
    if model.tokenizer is None:
        raise UsageError("the model has no tokenizer", remedy="name a directory with tokenizer files")
    limit = model.tokenizer.model_max_length
    return [one.ids for one in model.tokenizer.encode_batch(list(texts), max_length=limit)]


def _cycled(items: Sequence[Any], count: int) -> list[Any]:
    return [items[i % len(items)] for i in range(count)]


def _seconds(call: Callable[..., object], *given: object) -> float:
    begin = time.perf_counter()
    call(*given)
    return time.perf_counter() - begin


def _spread(name: str, seconds: Sequence[float]) -> list[Figure]:
    ordered = sorted(seconds)
    late = ordered[min(int(0.95 * len(ordered)), len(ordered) - 1)]
    return [
        Figure(f"{name}, median", "seconds", statistics.median(ordered)),
        Figure(f"{name}, 95 % within", "seconds", late),
    ]
