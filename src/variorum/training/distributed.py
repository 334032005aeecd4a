"""Several processes that train one model, as ``torchrun`` starts them: joined, the model spread, its state in shards.

Everything that goes between processes is torch's own: DDP (``replicate``: each holds the whole model) or FSDP2
(``shard``: each holds a part of every tensor), and ``torch.distributed.checkpoint``. A checkpoint is keyed by canonical
names, each shared tensor once; so many processes may read it as like, whatever number wrote it. Its shards are
safetensors; nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from variorum.checkpoint import manifest
from variorum.errors import DamagedFile, RunFailed, UsageError
from variorum.training.loop import ALONE, Alone, PiecesOfStep, Trainer
from variorum.training.state import OPTIMISER, RANDOM, State

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch

Way = Literal["replicate", "shard"]
FACTS, PREFIX = "state.json", "step-"


class Processes:
    """This process among those that ``torchrun`` started; see :class:`~variorum.training.loop.World`."""

    def __init__(self) -> None:
        import torch.distributed as dist

        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def sum(self, value: float) -> float:
        """``value`` added up over all processes, the same everywhere."""
        import torch
        import torch.distributed as dist

        total = torch.tensor(float(value), dtype=torch.float64, device=_device())
        dist.all_reduce(total)
        return float(total)

    def wait(self) -> None:
        """Until all processes are here."""
        import torch.distributed as dist

        dist.barrier()


Group = Processes | Alone


@contextmanager
def joined() -> Iterator[Group]:
    """The processes of this run while they work together; alone where ``torchrun`` did not start this one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    import torch
    import torch.distributed as dist

    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield Processes()
    finally:
        dist.destroy_process_group()


def spread(model: torch.nn.Module, way: Way) -> None:
    """Prepare ``model`` in place for training by all processes; its names and its class's methods stay.

    Sharded, each layer is a unit of its own, unless it shares parameters with something outside: those, and tied
    tables, belong to the one unit of the whole.
    """
    if way == "replicate":
        from torch.distributed._composable.replicate import replicate

        # Not every parameter has a part in every loss: XLNet's segments, experts that nobody chose.
        replicate(model, find_unused_parameters=True)
        return
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(_device(), (dist.get_world_size(),))
    for layer in own_layers(model):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def own_layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The layers of all stacks that share no parameter with anything outside themselves."""
    from variorum.attention.stack import Stack

    everywhere = _uses(model)
    layers = [layer for stack in model.modules() if isinstance(stack, Stack) for layer in stack.layers]
    return [layer for layer in layers if all(everywhere[key] == count for key, count in _uses(layer).items())]


def _uses(module: torch.nn.Module) -> Counter[int]:
    """How often each parameter is registered below ``module``."""
    return Counter(id(p) for part in module.modules() for p in part._parameters.values() if p is not None)


def even(pieces: PiecesOfStep, world: Group) -> PiecesOfStep:
    """``pieces``, refused where the processes would not have equally many: they would wait for one another for ever."""

    def checked(step: int) -> Any:
        found: list[Batch] = list(pieces(step))
        if len(found) % world.size:
            raise UsageError(
                f"{len(found)} micro-batches cannot be shared by {world.size} processes", where=f"step {step}",
                remedy="give a --micro-batch that cuts the batch into a multiple of the processes",
            )  # fmt: skip
        return found

    return checked


def write(folder: Path, trainer: Trainer, facts: Mapping[str, Any]) -> Path:
    """Write a snapshot of all processes' state, each its shard; whole or absent, as those of one process are.

    Returns:
        ``folder/step-…``, verified.

    Raises:
        RunFailed: the state is not finite.
    """
    import torch.distributed.checkpoint as dcp

    world, state = trainer.world, trainer.state()
    path = folder / f"{PREFIX}{state.step:08}"
    aside = folder / f".{path.name}.tmp"
    tensors = {_ranked(name, world.rank): tensor for name, tensor in state.tensors.items()}
    _check_finite(tensors, world, state.step)
    if world.rank == 0:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
    _wait(world)
    writer = dcp.HuggingFaceStorageWriter(str(aside), save_distributed=True)
    with _alone_is_fine():
        dcp.save(tensors, storage_writer=writer, no_dist=world.size == 1)
    _wait(world)
    if world.rank == 0:
        document = {"step": state.step, "numbers": dict(state.numbers), "facts": dict(facts), "shards": world.size}
        (aside / FACTS).write_text(json.dumps(document, indent=1) + "\n", "utf-8")
        _finish(aside, path)
    _wait(world)
    return path


def read(path: Path, trainer: Trainer) -> tuple[State, dict[str, Any]]:
    """The state in a snapshot, laid out as this process's ``trainer`` holds it, and the facts beside it.

    Random streams of a process that did not exist then stay as the trainer made them.

    Raises:
        DamagedFile: it is not whole.
    """
    import torch.distributed.checkpoint as dcp

    world = trainer.world
    if not manifest.verify(path):
        raise DamagedFile(f"has no {manifest.NAME}: it was never finished", where=str(path))
    document = json.loads((path / FACTS).read_bytes())
    reader = dcp.HuggingFaceStorageReader(str(path))
    held = reader.read_metadata().state_dict_metadata
    live = {_ranked(name, world.rank): tensor for name, tensor in trainer.state().tensors.items()}
    tensors = {}
    for name, kept in held.items():
        owner = trainer.named.get(name.removeprefix(f"{OPTIMISER}/").rpartition("/")[0])
        if name in live:
            tensors[name] = live[name].clone()
        elif not name.startswith(f"{RANDOM}/"):
            tensors[name] = _blank(kept, owner)
    with _alone_is_fine():
        dcp.load(tensors, storage_reader=reader, no_dist=world.size == 1)
    plain = {_unranked(name, world.rank): tensor for name, tensor in tensors.items()}
    return State(step=document["step"], tensors=plain, numbers=document["numbers"]), document["facts"]


@contextmanager
def _alone_is_fine() -> Iterator[None]:
    """Torch warns a process that reads or writes without others; here that is meant."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield


def _blank(kept: Any, owner: torch.Tensor | None) -> torch.Tensor:
    """Room for a tensor as it was kept, spread like the parameter it belongs to where it measures the same."""
    import torch

    if owner is not None and owner.shape == kept.size:
        return torch.zeros_like(owner, dtype=kept.properties.dtype, requires_grad=False)
    return torch.zeros(kept.size, dtype=kept.properties.dtype)


def _ranked(name: str, rank: int) -> str:
    """Each process has random streams of its own."""
    return f"{RANDOM}/{rank}/{name.removeprefix(f'{RANDOM}/')}" if name.startswith(f"{RANDOM}/") else name


def _unranked(name: str, rank: int) -> str:
    return name.replace(f"{RANDOM}/{rank}/", f"{RANDOM}/", 1) if name.startswith(f"{RANDOM}/{rank}/") else name


def _check_finite(tensors: Mapping[str, torch.Tensor], world: Any, step: int) -> None:
    broken = [name for name, tensor in tensors.items() if not bool(_local(tensor).isfinite().all())]
    if world.sum(len(broken)):
        where = f"{broken[0] if broken else 'another process'} at step {step}"
        raise RunFailed("is not finite", where=where, remedy="lower the learning rate")


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """What of ``tensor`` this process holds."""
    from torch.distributed.tensor import DTensor

    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _finish(aside: Path, path: Path) -> None:
    """Sync every file, write the manifest last, and put the folder in its place."""
    files = sorted(file for file in aside.iterdir() if file.is_file())
    hashed = {}
    for file in files:
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            hashed[file.name] = (hashlib.file_digest(opened, "sha256").hexdigest(), file.stat().st_size)
    with (aside / manifest.NAME).open("wb") as opened:
        opened.write(manifest.content(hashed))
        opened.flush()
        os.fsync(opened.fileno())
    _sync(aside)
    if path.exists():
        shutil.rmtree(path)
    aside.rename(path)
    _sync(path.parent)
    manifest.verify(path)


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _wait(world: Any) -> None:
    if world.size > 1:
        world.wait()


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
