"""The layout in which a model is written: its family's, where that can say all that the model is; else one of our own.

A mix with a published model among its ancestors is not that model: written as one, it would be read as another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from variorum.checkpoint.config import read_config, write_config
from variorum.errors import VariorumError
from variorum.family.names import dialect_for, own
from variorum.spec.architecture import Architecture, Layer, Stack
from variorum.spec.dialect import Dialect
from variorum.spec.inventory import tensors
from variorum.spec.model import Model
from variorum.spec.part import Part
from variorum.spec.positions import NtkScaling, Rotary

#: Who sees what a directory need not say: fields of the training alone.
UNSAID = ("training", "none")


def layout_of(model: Model, heads: Sequence[str]) -> Dialect:
    """The dialect in which ``model`` with ``heads`` is written."""
    dialect = dialect_for(model)
    return own.layout(heads) if dialect is None or not _says(dialect, model, tuple(heads)) else dialect


def _says(dialect: Dialect, model: Model, heads: tuple[str, ...]) -> bool:
    """Whether what is written in ``dialect`` is read as the same model."""
    try:
        back = read_config(write_config(model, dialect, {}, heads))[0].architecture
    except VariorumError:
        return False
    if model.architecture.pooler is None:  # no config says so; a directory without its tensors is read without it
        back = dataclasses.replace(back, pooler=None)
    held = {name.split(".")[1] for name in tensors(model.architecture, heads) if name.startswith("heads.")}
    return _computed(model.architecture, back, held) == _computed(back, back, held)


def _computed(arch: Architecture, back: Architecture, heads: set[str]) -> object:
    """All that shows in a forward pass: of the stacks that a directory describes, and of heads with weights."""
    stacks = {name: _stack(stack) for name, stack in arch.stacks.items() if name in back.stacks}
    rest = _fields(dataclasses.replace(arch, encoder=None, decoder=None, heads={}))
    return rest, stacks, {name: _shown(arch.heads.get(name)) for name in heads}


def _stack(stack: Stack) -> object:
    """A stack with its layers as they come out, however the rule for them is written."""
    layers = [_based(stack.layer(index)) for index in range(stack.depth)]
    plain = dataclasses.replace(stack, pattern=())
    based = dataclasses.replace(plain, positions=_based(plain.layer(0)).positions)
    return {**_fields(based), "block": [_shown(layer) for layer in layers]}


def _based(layer: Layer) -> Layer:
    """A layer whose rotation tells its base: NTK scaling is another base, and is published as that."""
    rotary = layer.positions
    if not isinstance(rotary, Rotary) or not isinstance(rotary.scaling, NtkScaling):
        return layer
    dims = int(getattr(layer.attention, "rope_dim", layer.attention.head_dim) * rotary.fraction)
    based = dataclasses.replace(rotary, theta=rotary.scaling.base(rotary.theta, dims), scaling=None)
    return dataclasses.replace(layer, positions=based)


def _shown(value: object) -> object:
    if isinstance(value, Part):
        return type(value).__name__, _fields(value)
    return {key: _shown(item) for key, item in value.items()} if isinstance(value, dict) else value


def _fields(part: Part) -> dict[str, object]:
    seen = (field.name for field in dataclasses.fields(part) if field.metadata["seen_by"] not in UNSAID)
    return {name: _shown(getattr(part, name)) for name in seen}
