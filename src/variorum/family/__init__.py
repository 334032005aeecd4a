"""The family: who is who. One file per lineage; every model a diff on its ancestor, with reasons.

``find`` knows every model and every published size by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache

from variorum.errors import NotFound, nearest
from variorum.spec.model import Model

LINEAGES = (
    "transformer", "bert", "sentence", "modernbert", "deberta", "xlnet", "t5", "bart", "gpt", "neox", "falcon", "bloom",
    "palm", "gemma", "qwen", "deepseek", "vit", "whisper", "longformer", "transfoxl", "bilm",
)  # fmt: skip
CLOSED = {
    "gpt-4": "OpenAI has not disclosed its architecture",
    "claude": "Anthropic has not disclosed its architecture",
}


@cache
def models() -> dict[str, Model]:
    """Every model by its own name, ancestors first."""
    return {model.name: model for model in _walk()}


def _walk() -> Iterator[Model]:
    """Every model, ancestors first; a lineage is read when it is come to."""
    for name in LINEAGES:
        yield from importlib.import_module(f"variorum.family.{name}").MODELS


@cache
def sizes() -> dict[str, str]:
    """Lower-cased name of every published size -> the model it belongs to."""
    return {size.lower(): name for name, model in models().items() for size in model.sizes}


def find(name: str) -> Model:
    """The model or published size called ``name`` (case does not matter).

    Raises:
        NotFound: unknown name; the nearest ones are given. Closed models say so.
    """
    key = name.lower()
    for closed, why in CLOSED.items():
        if key.startswith(closed):
            raise NotFound(f"{name} cannot be described: {why}", remedy="`variorum tree` lists what is known")
    for model in _walk():  # as far as its lineage, no further: a command starts the sooner
        if model.name == key:
            return model
        size = next((size for size in model.sizes if size.lower() == key), None)
        if size is not None:
            return model.sized(size)
    known = [*models(), *(size for model in models().values() for size in model.sizes)]
    raise NotFound(f"no model is called {name!r}", remedy=nearest(name, known) or "`variorum tree` lists all")


def children(name: str) -> list[Model]:
    """The models whose ancestor is ``name``."""
    return [model for model in models().values() if model.ancestor is not None and model.ancestor.name == name]
