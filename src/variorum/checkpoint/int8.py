"""int8 weights on disk, as published: compressed-tensors' "int-quantized" format, a symmetric scale for each channel.

A matrix ``X.weight`` lies there as int8 beside ``X.weight_scale`` [rows, 1], and ``quantization_config`` in config.json
says so. Tables of words, norms, heads and biases stay as they are. Activations are not quantised by the file; that is
the business of who runs it. Reading gives the numbers that the codes stand for, so that everything else here works on
such a model as on any other; :func:`variorum.inference.prepared.prepare` finds the same codes in them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from variorum.checkpoint.files import TensorFiles
from variorum.checkpoint.weights import Step
from variorum.errors import DamagedFile, UsageError
from variorum.kernels.int8 import quantised
from variorum.model import Model

METHOD, FORMAT = "compressed-tensors", "int-quantized"
SCALE = "_scale"
READS = "only int8 weights with one symmetric scale for each channel are read (compressed-tensors, int-quantized)"
#: Rules under which a row of a matrix on disk is an output channel of ours.
BY_ROWS = ("same", "fused", "paired")


def matrices(model: Model, steps: Sequence[Step]) -> list[str]:
    """Names on disk of what linears inside the stacks multiply by, a row an output channel."""
    found: list[str] = []
    for step in steps:
        owners = [name.removesuffix(".weight") for name in step.ours]
        inside = not step.ours[0].startswith("heads.") and all(
            name.endswith(".weight") for name in (*step.ours, *step.disk)
        )
        if inside and step.rule.how in BY_ROWS and not step.rule.transposed:
            found += step.disk if all(isinstance(model.get_submodule(one), nn.Linear) for one in owners) else ()
    return found


def coded(tensors: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
    """``tensors`` on disk with the matrices ``names`` as codes and scales, the scales of the matrices' type.

    Raises:
        UsageError: there are none.
    """
    if not names:
        raise UsageError(
            "this layout stores its matrices input by output, which int8 files have no place for",
            remedy="save it as it is, and run it with int8 weights",
        )
    found = dict(tensors)
    for name in names:
        held = quantised(tensors[name].float())
        assert held.scale is not None
        found[name] = held.weight
        found[name + SCALE] = held.scale[:, None].to(tensors[name].dtype)
    return found


def described(tensors: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Any]:
    """The ``quantization_config`` of a directory that holds :func:`coded` ``tensors``."""
    whole = sorted(
        name.removesuffix(".weight")
        for name, tensor in tensors.items()
        if tensor.dim() == 2 and name.endswith(".weight") and name not in names
    )
    weights = {
        "num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "group_size": None, "dynamic": False,
    }  # fmt: skip
    group = {"targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}
    return {
        "quant_method": METHOD, "format": FORMAT, "quantization_status": "compressed", "kv_cache_scheme": None,
        "config_groups": {"group_0": group}, "ignore": whole,
    }  # fmt: skip


def check(config: Mapping[str, Any], where: str) -> bool:
    """Whether ``config`` says that the weights are int8.

    Raises:
        DamagedFile: it says that they are quantised in another way.
    """
    said = config.get("quantization_config")
    if said is None:
        return False
    try:
        groups = said["config_groups"].values()
        ours = said["quant_method"] == METHOD and said["format"] == FORMAT and all(map(_is_read, groups))
    except (KeyError, TypeError, AttributeError):
        ours = False
    if not ours:
        method = said.get("quant_method") if isinstance(said, Mapping) else said
        raise DamagedFile(f"its weights are quantised ({method!r:.40})", where=where, remedy=READS)
    return True


def _is_read(group: Mapping[str, Any]) -> bool:
    weights = group["weights"]
    kind = (weights["num_bits"], weights["type"], weights["symmetric"], weights["strategy"])
    return kind == (8, "int", True, "channel")


class Int8Files:
    """The tensors of a directory with the numbers that its codes stand for; the face of :class:`TensorFiles`.

    Raises:
        DamagedFile: a scale is missing, misshapen, negative or not finite.
    """

    def __init__(self, directory: Path) -> None:
        self._files = TensorFiles(directory)
        held, types = self._files.shapes, self._files.dtypes
        self._codes = {name for name, dtype in types.items() if dtype == "I8"}
        scales = {name + SCALE for name in self._codes}
        for name in sorted(self._codes):
            if held.get(name + SCALE) not in (held[name][:1], (*held[name][:1], 1)):
                raise DamagedFile(f"{name} holds int8, and {name + SCALE} no scale for each of its rows",
                                  where=str(self._files.file_of(name)))  # fmt: skip
        self.shapes = {name: shape for name, shape in held.items() if name not in scales}
        self.dtypes = {name: types[name + SCALE] if name in self._codes else types[name] for name in self.shapes}

    def get(self, name: str) -> Tensor:
        """The tensor ``name``; of codes, in their scales' type."""
        found = self._files.get(name)
        if name not in self._codes:
            return found
        scale = self._files.get(name + SCALE).reshape(-1, 1)
        if not scale.is_floating_point() or not bool((torch.isfinite(scale) & (scale >= 0)).all()):
            raise DamagedFile(f"{name + SCALE} holds what is no scale", where=str(self.file_of(name)))
        return (found.float() * scale.float()).to(scale.dtype)

    def file_of(self, name: str) -> Path:
        """The file that holds the tensor ``name``."""
        return self._files.file_of(name)
