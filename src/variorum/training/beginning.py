"""Weights that a run begins with, where it does not begin with nothing: those of a model that is there.

They are copied into the run's folder before it is measured, so that it needs nothing outside of it, and each of its
processes, and every process that goes on with it, assembles the same model.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from variorum.checkpoint import manifest
from variorum.checkpoint.files import TensorFiles
from variorum.checkpoint.writing import write_directory
from variorum.errors import DamagedFile, UsageError
from variorum.training.rundir import START, place

if TYPE_CHECKING:
    from variorum.model import Model as Built
    from variorum.spec.model import Model


def source(reference: str) -> Path | None:
    """Where the weights are that ``reference`` means: a directory, a GGUF file, org/name in the cache, or a run of
    pretraining; ``None`` where it names a spec.

    Raises:
        NotFound: none of these is there.
    """
    if reference.lower().endswith(".toml") or not (reference.lower().endswith(".gguf") or os.sep in reference):
        return None
    from variorum.hub import locate

    return locate(str(place(reference)))


def check_length(spec: Model, length: int) -> None:
    """See that its tables of positions reach so far.

    Raises:
        UsageError: they do not.
    """
    for stack in spec.architecture.stacks.values():
        usable = getattr(getattr(stack.input, "positions", None), "usable", None)
        if usable is not None and usable < length:
            raise UsageError(
                f"rows of {length} tokens, and its table of positions ends at {usable}", where=spec.name,
                remedy=f"give --length {usable} or less",
            )  # fmt: skip


def keep(weights: Path, spec: Model, heads: Sequence[str], folder: Path) -> None:
    """Copy these weights, as far as ``spec`` with these heads needs them, into the run in ``folder``.

    Raises:
        UsageError: ``spec`` has other weights than are there. What loading raises.
    """
    from variorum import face
    from variorum.builder import empty

    held = dict(face.load(str(weights), head=heads).named_parameters())
    wanted = dict(empty(spec, heads).named_parameters())
    for name, tensor in wanted.items():
        if name not in held or held[name].shape != tensor.shape:
            there = f"{list(held[name].shape)} there" if name in held else "not there"
            raise UsageError(
                f"{name} is {list(tensor.shape)} as asked and {there}", where=str(weights),
                remedy="give other weights, or fewer changes",
            )  # fmt: skip
    write_directory(folder / START, {name: held[name].detach().float() for name in wanted}, {})


def take(model: Built, folder: Path) -> None:
    """Give ``model`` the weights that the run in ``folder`` begins with, if it does.

    Raises:
        DamagedFile: they are not whole.
    """
    start = folder / START
    if not start.is_dir():
        return
    if not manifest.verify(start):
        raise DamagedFile("was never finished", where=str(start), remedy="remove the folder of the run, begin again")
    with TensorFiles(start) as files, torch.no_grad():
        for name, tensor in model.named_parameters():
            tensor.copy_(files.get(name))
