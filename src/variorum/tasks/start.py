"""The model that a task starts from: a published one with the head that the task needs, or a small one from nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from variorum.errors import NotFound
from variorum.spec.heads import Problem
from variorum.spec.small import SCALES, scaled, worded

if TYPE_CHECKING:
    from variorum.face import Model

VOCAB, LENGTH = 4096, 128
"""Ids and longest text, in tokens, of a model that is made from nothing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the task asks of the model.

    Attributes:
        head: that answers; ``None`` for states alone.
        labels: names of the classes, or of the numbers, that the head tells apart; the directory's own if empty.
        problem: what they are, where the head judges whole sequences.
        seed: of the values that no file holds.
        device: where it shall be.
        length: the longest text that a model from nothing reads, in tokens.
    """

    head: str | None
    labels: tuple[str, ...] = ()
    problem: Problem = "single_label"
    seed: int = 0
    device: str = "cpu"
    length: int = LENGTH


def start(reference: str, wanted: Wanted, texts: Sequence[str]) -> Model:
    """The model that ``reference`` means, with the head that is wanted, fresh where no file holds it.

    Args:
        reference: a directory, a GGUF file, a spec's name or org/name in the cache; or ``nano`` or ``small`` for a BERT
            of that size made from nothing, ``nano:NAME`` for another spec, with a vocabulary learned from the texts.
        texts: that a vocabulary may be learned from.

    Raises:
        NotFound: no such model, or it has no such head.
    """
    scale, _, name = reference.partition(":")
    if scale in SCALES and "/" not in name:
        return _made(scale, name or "bert", wanted, texts)
    from variorum.checkpoint.load import Fresh
    from variorum.face import load

    fresh = Fresh(labels=wanted.labels, problem=wanted.problem, seed=wanted.seed)
    return load(reference, head=wanted.head, fresh_head=fresh, device=wanted.device)


def _made(scale: str, name: str, wanted: Wanted, texts: Sequence[str]) -> Model:
    from variorum.checkpoint.load import Fresh
    from variorum.face import build
    from variorum.family import find
    from variorum.text.like import train_like

    spec = scaled(find(name), SCALES[scale])
    tokenizer = train_like(spec, texts, VOCAB + 2 * len(set().union(*texts)))
    spec = worded(spec, vocab=tokenizer.vocab_size, pad_id=tokenizer.pad_id, length=wanted.length)
    if wanted.head is not None and wanted.labels:
        if wanted.head not in spec.architecture.heads:
            raise NotFound(f"{name} has no head {wanted.head!r}", remedy=f"it has {', '.join(spec.architecture.heads)}")
        fresh = Fresh(labels=wanted.labels, problem=wanted.problem)
        spec = fresh.spec(spec, wanted.head)
    own = spec.variant(f"{scale} {name}", cite=spec.cite, changes=())  # a descendant is published as its ancestor is
    model = build(own, head=wanted.head, seed=wanted.seed)
    model.tokenizer, model.label_names = tokenizer, wanted.labels
    return model.to(wanted.device)
