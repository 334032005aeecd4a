"""Under which names the family is published: one dialect per ``model_type``, inherited like the models are."""

from __future__ import annotations

import importlib
from functools import cache

from variorum.family import sizes
from variorum.spec.dialect import Dialect
from variorum.spec.model import Model

FILES = (
    "bert", "modernbert", "deberta", "xlnet", "t5", "bart", "gpt", "neox", "falcon", "bloom", "llama",
    "gemma", "qwen", "deepseek", "vit", "whisper", "longformer", "transfoxl",
)  # fmt: skip


@cache
def dialects() -> dict[str, Dialect]:
    """Every dialect by ``model_type``."""
    found = (importlib.import_module(f"variorum.family.names.{name}").DIALECTS for name in FILES)
    return {dialect.model_type: dialect for file in found for dialect in file}


@cache
def readable() -> dict[str, Dialect]:
    """Every dialect that can be read: those of published directories, of GGUF files, and of models of one's own."""
    own = importlib.import_module("variorum.family.names.own")
    return dialects() | importlib.import_module("variorum.family.names.gguf").GGUF | {own.TYPE: own.OWN}


def dialect_for(model: Model) -> Dialect | None:
    """The dialect a model is published in: its own, or its nearest ancestor's; ``None`` where nobody published it."""
    written = [dialect for dialect in dialects().values() if not dialect.read_only]
    bases = {name: dialect for dialect in written for name in (dialect.base.name, *dialect.publishes)}
    names = [sizes().get(m.name.lower(), m.name) for m in reversed(model.lineage)]
    found = next((bases[name] for name in names if name in bases), None)
    return found.choose(found.write(model)) if found is not None and found.choose is not None else found
