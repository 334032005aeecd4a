"""Write the published layout: what other libraries load, with a manifest of sha256."""

from __future__ import annotations

import json
from pathlib import Path

from torch import Tensor

from variorum.checkpoint import files
from variorum.checkpoint.config import write_config
from variorum.checkpoint.weights import plan, to_disk
from variorum.errors import UsageError
from variorum.family.names import dialect_for
from variorum.model import Model


def disk_tensors(model: Model, values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Canonical tensors of ``model`` (weights, or anything shaped like them) under their published names."""
    origin = model.origin
    dialect = origin.dialect if origin else dialect_for(model.spec)
    if dialect is None:
        raise UsageError(f"{model.spec.name} has no published layout", remedy="keep its spec and train from it")
    prefix = origin.prefix if origin else dialect.prefix_of(model.head_names)
    found = to_disk(plan(dialect, model.spec.architecture, model.head_names, prefix), values)
    if origin is None:
        return found
    for name, ours in origin.duplicates.items():
        if ours in values:
            found[name] = values[ours].clone()
    return {origin.older.get(name, name): tensor for name, tensor in found.items()}


def save(model: Model, directory: str | Path) -> None:
    """Write ``model`` to ``directory``: config.json, safetensors, tokenizer, manifest; atomically.

    Raises:
        UsageError: the architecture has no published layout, or the directory holds something else.
        OverBudget: not enough free space.
    """
    origin = model.origin
    dialect = origin.dialect if origin else dialect_for(model.spec)
    if dialect is None:
        raise UsageError(f"{model.spec.name} has no published layout", remedy="keep its spec and train from it")
    values = {name: p.detach() for name, p in model.named_tensors()}
    config = write_config(model.spec, dialect, dict(origin.config) if origin else {}, model.head_names)
    others = {"config.json": json.dumps(config, indent=2, sort_keys=True).encode() + b"\n"}
    if model.tokenizer is not None:
        others |= model.tokenizer.files
    files.write_directory(Path(directory), disk_tensors(model, values), others)
