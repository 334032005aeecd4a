"""Several processes that train one model, as ``torchrun`` starts them: how they are joined, and how a model is shared.

Everything that goes between them is torch's own: DDP, where each holds the whole model, or FSDP2, where each holds a
part of every tensor. Their snapshots are :mod:`variorum.training.sharded`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from variorum import errors
from variorum.errors import RunFailed, VariorumError
from variorum.training.wishes import HERE, Running
from variorum.training.world import Alone, World

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
PATIENCE = timedelta(days=7)
"""How long processes wait for one another: process 0 may read texts for hours. One that dies is noticed at once."""
ENDED, LOST = "ended", ("gloo/transport", "Connection closed", "Connection reset", "Broken pipe", "NCCL")
"""Where the first to fail leaves its exit code; and what an error of torch's says that is another process's end."""


@contextmanager
def joined(running: Running = HERE) -> Iterator[World]:
    """The processes of this run while they work together; alone where ``torchrun`` did not start this one.

    Where one fails, or is lost, all end: the first to know raises why, and the others end with its exit code and
    without a word.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Alone(running.device)
        return
    import torch
    import torch.distributed as dist

    device, cuda = running.device, torch.device(running.device).type == "cuda"
    if cuda:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    store, rank, size = next(dist.rendezvous("env://"))
    dist.init_process_group(
        "nccl" if cuda else "gloo", store=dist.PrefixStore("group", store), rank=rank, world_size=size, timeout=PATIENCE
    )
    processes = Processes(store, device, running.strategy)
    try:
        yield processes
    except Exception as error:
        raise processes.ending(error) from error
    finally:
        dist.destroy_process_group()


class Processes:
    """This process among those that ``torchrun`` started; see :class:`~variorum.training.world.World`."""

    def __init__(self, store: torch.distributed.Store, device: str, strategy: str) -> None:
        import torch.distributed as dist

        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.store, self.device, self.strategy, self.turn = store, device, strategy, 0

    def sum(self, value: float) -> float:
        import torch.distributed as dist

        return self._reduced(value, dist.ReduceOp.SUM)

    def most(self, value: float) -> float:
        import torch.distributed as dist

        return self._reduced(value, dist.ReduceOp.MAX)

    def _reduced(self, value: float, by: Any) -> float:
        import torch
        import torch.distributed as dist

        found = torch.tensor(float(value), dtype=torch.float64, device=self.device)
        dist.all_reduce(found, by)
        return float(found)

    def first(self, work: Callable[[], T]) -> T:
        self.turn += 1
        key = f"turn {self.turn}"
        if self.rank == 0:
            self.store.set(key, json.dumps(_outcome(work)))
        self.sum(0)
        value, failure = json.loads(self.store.get(key))
        if failure is not None:
            kind, told = failure
            raise getattr(errors, kind)(**told)
        found: T = value
        return found

    def spread(self, whole: torch.nn.Module) -> torch.nn.Module:
        if self.strategy == "ddp":
            from torch.nn.parallel import DistributedDataParallel

            # Not every parameter has a part in every loss: XLNet's segments, experts that nobody chose.
            return DistributedDataParallel(whole, find_unused_parameters=True)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(self.device.partition(":")[0], (self.size,))
        for layer in own_layers(whole):
            fully_shard(layer, mesh=mesh)
        fully_shard(whole, mesh=mesh)
        return whole

    def ending(self, error: Exception) -> BaseException:
        """What this process ends with for ``error``: the error, or no word where another has told why."""
        if not isinstance(error, VariorumError) and any(word in str(error) for word in LOST):
            remedy = "the same command goes on from the last snapshot"
            error = RunFailed("another process has ended", where=f"process {self.rank}", remedy=remedy)
        code = getattr(error, "exit_code", RunFailed.exit_code)
        mine = f"{code} {self.rank}"
        try:
            told = self.store.compare_set(ENDED, "", mine).decode()
        except RuntimeError:  # torchrun itself is gone
            return error
        return error if told == mine else SystemExit(int(told.split()[0]))


def _outcome(work: Callable[[], object]) -> tuple[object, tuple[str, dict[str, str]] | None]:
    """What ``work`` gives, and the failure that it ends in."""
    try:
        return work(), None
    except VariorumError as error:
        return None, (type(error).__name__, {"what": error.what, "where": error.where, "remedy": error.remedy})


def own_layers(whole: torch.nn.Module) -> list[torch.nn.Module]:
    """The layers of all stacks that share no parameter with anything outside themselves.

    Each is a unit of its own for FSDP2. Layers that are one, as ALBERT's, and tied tables belong to the unit of the
    whole.
    """
    from variorum.attention.stack import Stack

    everywhere = _uses(whole)
    layers = [layer for stack in whole.modules() if isinstance(stack, Stack) for layer in stack.layers]
    return [layer for layer in layers if all(everywhere[key] == count for key, count in _uses(layer).items())]


def _uses(module: torch.nn.Module) -> Counter[int]:
    """How often each parameter is registered below ``module``."""
    return Counter(id(p) for part in module.modules() for p in part._parameters.values() if p is not None)
