"""A file of activations that were recorded elsewhere, and what our model makes of the same inputs.

The file is safetensors: one tensor per module under its published name (``name#1`` for a second call), the inputs as
``input.input_ids`` and so on, the order of the calls and the published class in the metadata.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from variorum.checkpoint.config import dialect_of
from variorum.checkpoint.header import read_header
from variorum.checkpoint.paths import read_json
from variorum.errors import DamagedFile, NotFound, UsageError
from variorum.inference.trace import Comparison, compare, published_names, run, tolerance_of
from variorum.model import Model

DType = Literal["float32", "float64", "bfloat16", "float16"]
NAMES: dict[torch.dtype, DType] = {
    torch.float32: "float32", torch.float64: "float64", torch.bfloat16: "bfloat16", torch.float16: "float16",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Recording:
    """Inputs and activations of one forward pass, in the order of the calls. ``kind`` is the published class."""

    path: Path
    inputs: dict[str, Tensor]
    activations: dict[str, Tensor]
    kind: str

    @property
    def dtype(self) -> DType:
        """The type that the recorded model computed in."""
        return next((NAMES[value.dtype] for value in self.activations.values() if value.dtype in NAMES), "float32")


def read_recording(path: Path) -> Recording:
    """The recording in a safetensors file.

    Raises:
        NotFound: no such file. AccessError: it may not be read.
        DamagedFile: it is damaged, or holds no inputs or no activations.
    """
    if not path.is_file():
        raise NotFound("no such file or directory", where=str(path), remedy="check the path")
    names = list(read_header(path))
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            values = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise DamagedFile(f"cannot be read ({str(error).splitlines()[0][:120]})", where=str(path)) from None
    inputs = {name.removeprefix("input."): value for name, value in values.items() if name.startswith("input.")}
    order = _order(metadata.get("order", "[]"), path)
    rest = [name for name in names if not name.startswith("input.")]
    activations = {
        name: values[name] for name in [*(n for n in order if n in rest), *(n for n in rest if n not in order)]
    }
    if "input_ids" not in inputs or not activations:
        what = "input.input_ids" if "input_ids" not in inputs else "activations"
        raise DamagedFile(f"holds no {what}", where=str(path), remedy="record inputs and outputs of every module")
    return Recording(path, inputs, activations, metadata.get("class", ""))


def _order(text: str, path: Path) -> list[str]:
    try:
        order = json.loads(text)
    except (ValueError, RecursionError):
        order = None
    if not isinstance(order, list) or not all(isinstance(name, str) for name in order):
        raise DamagedFile("its order is not a list of names", where=str(path))
    return order


def recorded_heads(directory: Path, recording: Recording) -> str | tuple[str, ...]:
    """The heads of the recorded class, to be loaded with; ``"auto"`` where the recording does not name one."""
    config = read_json(directory / "config.json") if (directory / "config.json").is_file() else {}
    heads = dialect_of(config, str(directory / "config.json")).classes.get(recording.kind) if config else None
    return "auto" if heads is None else tuple(heads)


def compare_with(model: Model, recording: Recording, *, tolerance: float | None = None) -> Comparison:
    """The recorded activations beside ours, in the order of the calls.

    Raises:
        UsageError: nothing in the recording stands for a module of this model.
    """
    names = published_names(model, recording.activations)
    ours = run(model, _on(model, recording.inputs), names)
    mask = recording.inputs.get("attention_mask")
    allowed = tolerance_of(next(model.parameters()).dtype) if tolerance is None else tolerance
    found = compare(recording.activations, _home(ours), names=names, mask=mask, tolerance=allowed)
    if not found.compared:
        raise UsageError(
            "no recorded name is a module of this model", where=str(recording.path),
            remedy=f"it was recorded from {recording.kind or 'another model'}",
        )  # fmt: skip
    return found


def compare_models(
    ours: Model, theirs: Model, inputs: Mapping[str, Any], *, tolerance: float | None = None
) -> Comparison:
    """Two models of one architecture on the same inputs, under our module names; ``theirs`` is the reference.

    Raises:
        UsageError: they share no module.
    """
    reference, found = run(theirs, _on(theirs, inputs)), run(ours, _on(ours, inputs))
    allowed = tolerance_of(next(ours.parameters()).dtype) if tolerance is None else tolerance
    both = compare(_home(reference), _home(found), names={}, mask=inputs.get("attention_mask"), tolerance=allowed)
    if not both.compared:
        raise UsageError("the two models share no module", remedy="compare checkpoints of one architecture")
    return both


def _on(model: Model, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
    device = next(model.parameters()).device
    return {name: value.to(device) for name, value in inputs.items()}


def _home(found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.cpu() for name, value in found.items()}
