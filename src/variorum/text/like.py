"""A vocabulary learned in the way of a model: what its family does, cased as the model is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from variorum.errors import NotFound, UsageError
from variorum.text.families import FAMILIES, USUAL, Method, family_named

if TYPE_CHECKING:
    from variorum.spec.model import Model
    from variorum.text import Tokenizer


def train_like(spec: Model, texts: Iterable[str], size: int) -> Tokenizer:
    """A tokenizer of ``size`` ids (bytes: of their own number), learned as ``spec``'s was.

    Raises:
        UsageError: its kind of tokenizer is not learned here.
    """
    from variorum.text.train import train

    family, kind = _family(spec), spec.tokenizer.kind
    if family is None or kind not in FAMILIES[family].methods:
        if kind not in USUAL:
            raise UsageError(f"a tokenizer of {kind} is not learned here", remedy="give one with --tokenizer")
        family = USUAL[kind]  # type: ignore[index]
    # By likelihood, rare pairs are merged first, and the most frequent words stay spelt out.
    frequent: Method | None = "wordpiece-by-frequency" if kind == "wordpiece" else None
    size, lower = (0, None) if kind == "bytes" else (size, not spec.tokenizer.cased)
    return train(texts, size, family=family, method=frequent, lower=lower)


def _family(spec: Model) -> str | None:
    """The family in whose way a vocabulary is learned: the nearest of the lineage that has one."""
    from variorum.family import sizes

    for model in reversed(spec.lineage):
        try:
            return family_named(sizes().get(model.name.lower(), model.name)).name
        except NotFound:
            continue
    return None
