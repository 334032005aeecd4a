"""Write the published layout: what other libraries load, with a manifest of sha256."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from variorum.checkpoint import files, int8
from variorum.checkpoint.config import write_config
from variorum.checkpoint.gguf import is_gguf
from variorum.checkpoint.layout import layout_of
from variorum.checkpoint.load import Origin
from variorum.checkpoint.source import GENERATION
from variorum.checkpoint.weights import Step, plan, to_disk
from variorum.errors import UsageError
from variorum.family.names.gguf import WHY_READ_ONLY
from variorum.family.names.own import TYPE as OWN
from variorum.model import Model
from variorum.parts.lora import adapters
from variorum.parts.positions import sinusoids
from variorum.spec.dialect import Dialect
from variorum.spec.paths import lookup
from variorum.spec.positions import Sinusoidal

NOTHING: Mapping[str, bytes] = {}


def _origin(model: Model) -> Origin | None:
    """Where the model's names on disk come from; None where they come from what is only read, such as GGUF."""
    origin: Origin | None = model.origin
    return None if origin is None or origin.dialect.read_only else origin


def disk_tensors(model: Model, values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Canonical tensors of ``model`` (weights, or anything shaped like them) under their published names."""
    origin = _origin(model)
    found = to_disk(_steps(model), values)
    if origin is None:
        dialect = layout_of(model.spec, model.head_names)
        return found | _tables(model, dialect, dialect.prefix_of(model.head_names))
    for name, ours in origin.duplicates.items():
        if ours in values:
            found[name] = values[ours].clone()
    found = {name: tensor for name, tensor in found.items() if name not in origin.absent or tensor.any()}
    found |= {name: tensor.to(next(iter(values.values())).dtype) for name, tensor in origin.tables.items()}
    return {origin.older.get(name, name): tensor for name, tensor in found.items()}


def _steps(model: Model) -> list[Step]:
    """How the model's tensors lie on disk."""
    origin = _origin(model)
    dialect = origin.dialect if origin else layout_of(model.spec, model.head_names)
    prefix = origin.prefix if origin else dialect.prefix_of(model.head_names)
    return plan(dialect, model.spec.architecture, model.head_names, prefix)


def _tables(model: Model, dialect: Dialect, prefix: str) -> dict[str, Tensor]:
    """Tables that the spec computes and the published layout stores, as long as the recipe's texts."""
    found: dict[str, Tensor] = {}
    width, rows = model.spec.architecture.width, torch.arange(model.spec.recipe.length or 0)
    for name, path in dialect.tables.items():
        positions = lookup(model.spec.architecture, path)
        if isinstance(positions, Sinusoidal):
            halves, dtype = positions.layout == "halves", next(model.parameters()).dtype
            found[prefix + name] = sinusoids(rows, width, positions.base, halves=halves, dtype=dtype)
    return found


def save(
    model: Model, directory: str | Path, *, weights: Literal["int8"] | None = None,
    beside: Mapping[str, bytes] = NOTHING,
) -> None:  # fmt: skip
    """Write ``model`` to ``directory``: config.json, safetensors, tokenizer, manifest; atomically.

    A model that nobody published, such as a mix, gets a layout that is read here alone (``model_type`` variorum).

    Args:
        weights: "int8" writes the matrices of the layers as int8; see :mod:`variorum.checkpoint.int8`.
        beside: further files by name, written and checked with the others.

    Raises:
        UsageError: the directory holds something else, or is a GGUF file; or int8 has no place in this layout.
        OverBudget: not enough free space.
    """
    if is_gguf(directory):
        raise UsageError(WHY_READ_ONLY, where=str(directory), remedy="save to a directory")
    if adapters(model, merged=False):
        raise UsageError(
            f"{model.spec.name} has adapters beside its weights", remedy="merge them, or save them with save_adapter"
        )
    if model.holds_codes:
        raise UsageError(
            f"{model.spec.name} holds int8 weights in the place of its own", remedy="save the model that it was made of"
        )
    origin = _origin(model)
    dialect = origin.dialect if origin else layout_of(model.spec, model.head_names)
    published = model.origin is not None and dialect.model_type != OWN
    known = {"model_type": dialect.model_type, **model.origin.published} if published else {}
    values = {name: p.detach() for name, p in (*model.named_tensors(), *model.named_constants())}
    config = write_config(model.spec, dialect, dict(origin.config) if origin else known, model.head_names,
                          model.label_names)  # fmt: skip
    tensors = disk_tensors(model, values)
    config.pop("quantization_config", None)
    if weights == "int8":
        older = origin.older if origin else {}
        names = [older.get(name, name) for name in int8.matrices(model, _steps(model))]
        tensors, config["quantization_config"] = int8.coded(tensors, names), int8.described(tensors, names)
    others = {"config.json": json.dumps(config, indent=2, sort_keys=True).encode() + b"\n"}
    if model.origin and model.origin.generation:
        others[GENERATION] = json.dumps(model.origin.generation, indent=2, sort_keys=True).encode() + b"\n"
    if model.tokenizer is not None:
        others |= model.tokenizer.files
    files.write_directory(Path(directory), tensors, others | dict(beside))
