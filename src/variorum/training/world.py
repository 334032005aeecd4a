"""This process among those that train one model together: what the loop and a run ask of it, answered for one alone.

Several are :class:`variorum.training.distributed.Processes`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


class World(Protocol):
    """This process's place among several; every call but the first two is made by all of them in the same order."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def device(self) -> str:
        """Where this process computes."""
        ...

    def sum(self, value: float) -> float:
        """``value`` added up over all processes, the same everywhere."""
        ...

    def most(self, value: float) -> float:
        """The largest ``value`` of all processes."""
        ...

    def first(self, work: Callable[[], T]) -> T:
        """What ``work`` gives process 0, the same everywhere; the others wait for it, however long it takes.

        It is a value that JSON knows, or a failure of :mod:`variorum.errors`, which all of them raise.
        """
        ...

    def spread(self, whole: torch.nn.Module) -> torch.nn.Module:
        """``whole`` prepared for training by all: gradients are averaged over the processes. Call what is returned."""
        ...


@dataclass(frozen=True)
class Alone:
    """One process."""

    device: str = "cpu"

    rank, size = 0, 1

    def sum(self, value: float) -> float:
        return value

    def most(self, value: float) -> float:
        return value

    def first(self, work: Callable[[], T]) -> T:
        return work()

    def spread(self, whole: torch.nn.Module) -> torch.nn.Module:
        return whole


ALONE = Alone()
