"""A snapshot that several processes write together, each its shard, and that any number of them reads.

The shards are made by ``torch.distributed.checkpoint``: safetensors, keyed by canonical names, each shared tensor once.
What is whole and what is not is settled as for the saves of one process: all of it is written beside its place, synced,
given its manifest last and renamed.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variorum.checkpoint import manifest
from variorum.checkpoint.writing import failures, filling
from variorum.training.state import OPTIMISER, RANDOM, State
from variorum.training.world import World

if TYPE_CHECKING:
    import torch


def write(path: Path, state: State, others: Mapping[str, bytes], world: World) -> None:
    """Write the tensors that all processes hold, and the other files, as ``path``, or leave everything as it was.

    Raises:
        OverBudget: a disk is too small. AccessError: it may not be written.
    """
    tensors = {_ranked(name, world.rank): tensor for name, tensor in state.tensors.items()}
    needed = sum(t.numel() * t.element_size() for t in tensors.values()) + sum(map(len, others.values()))
    with failures(path, needed), ExitStack() as stack:
        place = Path(world.first(lambda: str(stack.enter_context(filling(path, needed)))))
        _save(tensors, place)
        world.first(lambda: _finish(place, others, needed))
        world.first(stack.close)


def read(path: Path, like: State, world: World) -> dict[str, torch.Tensor]:
    """The tensors of a snapshot, laid out as ``like``, which this process holds now.

    Random streams of a process that did not exist then are left out.
    """
    import torch.distributed.checkpoint as dcp

    reader = dcp.HuggingFaceStorageReader(str(path))
    held = reader.read_metadata().state_dict_metadata
    live = {_ranked(name, world.rank): tensor for name, tensor in like.tensors.items()}
    tensors = {}
    for name, kept in held.items():
        if name in live:
            tensors[name] = live[name].clone()
        elif not name.startswith(f"{RANDOM}/"):
            owner = like.tensors.get(name.removeprefix(f"{OPTIMISER}/").rpartition("/")[0])
            tensors[name] = _blank(kept, owner)
    with _as_one():
        dcp.load(tensors, storage_reader=reader, no_dist=world.size == 1)
    return {_unranked(name, world.rank): tensor for name, tensor in tensors.items()}


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What of ``tensor`` this process holds."""
    found: torch.Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor  # a DTensor; its import is slow
    return found


def _save(tensors: Mapping[str, torch.Tensor], place: Path) -> None:
    """Each process its shard."""
    import torch.distributed.checkpoint as dcp

    with _as_one():
        dcp.save(dict(tensors), storage_writer=dcp.HuggingFaceStorageWriter(str(place), save_distributed=True))


def _finish(place: Path, others: Mapping[str, bytes], needed: int) -> None:
    """The other files; then every file synced, and the manifest last."""
    with failures(place, needed):
        for name, content in others.items():
            (place / name).write_bytes(content)
        hashed = {}
        for path in sorted(place.iterdir()):
            with path.open("rb") as file:
                os.fsync(file.fileno())
                hashed[path.name] = (hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size)
        with (place / manifest.NAME).open("wb") as file:
            file.write(manifest.content(hashed))
            file.flush()
            os.fsync(file.fileno())


def _blank(kept: Any, owner: torch.Tensor | None) -> torch.Tensor:
    """Room for a tensor as it was kept, spread like the parameter it belongs to where it measures the same."""
    import torch

    if owner is not None and owner.shape == kept.size:
        return torch.zeros_like(owner, dtype=kept.properties.dtype, requires_grad=False)
    return torch.zeros(kept.size, dtype=kept.properties.dtype)


def _ranked(name: str, rank: int) -> str:
    """Each process has random streams of its own; those of process 0 are named as those of one alone."""
    streams = rank and name.startswith(f"{RANDOM}/")
    return f"{RANDOM}/{rank}/{name.removeprefix(f'{RANDOM}/')}" if streams else name


def _unranked(name: str, rank: int) -> str:
    return name.replace(f"{RANDOM}/{rank}/", f"{RANDOM}/", 1) if name.startswith(f"{RANDOM}/{rank}/") else name


@contextmanager
def _as_one() -> Iterator[None]:
    """What goes wrong in one process is raised in all, as what it is; that one may read alone is not worth a note."""
    from torch.distributed.checkpoint.api import CheckpointException

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        try:
            yield
        except CheckpointException as error:
            causes = [cause for cause, _ in error.failures.values()]
            raise next((cause for cause in causes if isinstance(cause, OSError)), causes[0]) from error
