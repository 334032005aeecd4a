"""A T5 so small that it learns a few words in seconds, saved with a vocabulary of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from variorum.face import build
from variorum.family import find
from variorum.spec.small import Scale, scaled, worded
from variorum.text.families import family_named
from variorum.text.train import train

HOW = {"epochs": 20, "batch_size": 12, "learning_rate": 0.003}


def t5(place: Path, texts: Sequence[str]) -> str:
    """The directory."""
    return small(place, "t5", texts, head="seq2seq_lm")


def small(place: Path, name: str, texts: Sequence[str], *, head: str | None = None) -> str:
    """The same of another model."""
    tokenizer = train(list(texts), 500, family=family_named(name).name)
    spec = scaled(find(name), Scale(width=48, depth=2, heads=4))
    spec = worded(spec, vocab=tokenizer.vocab_size, pad_id=tokenizer.pad_id, length=64)
    model = build(spec, head=head)
    model.tokenizer = tokenizer
    model.save(place)
    return str(place)
