"""What an arm costs beside what it is worth, and which arms no other one beats in both: the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from variorum.study.cells import CellResult


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Of one arm, on one thread of the machine that ran it.

    Attributes:
        latency, latency_95: median and 95th percentile, over texts, of the seconds that one takes.
        throughput: texts a second, where they come together.
        memory: bytes of a process that reads the model and answers, at its height.
        disk: bytes of what has to be shipped.
        flops: forward operations of a text of mean length, by the spec; ``None`` for what has no spec.
        training: seconds of one training.
    """

    latency: float
    latency_95: float
    throughput: float
    memory: int
    disk: int
    flops: int | None
    training: float


class Axis(NamedTuple):
    """A cost that quality is held against: its field, a word for it, its unit at length and short, and its size."""

    name: str
    word: str
    unit: str
    short: str
    size: float

    def of(self, costs: Costs) -> float:
        """In its unit."""
        return float(getattr(costs, self.name)) / self.size


LATENCY = Axis("latency_95", "latency", "ms for one text, 95th percentile", "ms a text", 1e-3)
MEMORY = Axis("memory", "memory", "MB of a process that answers", "MB", 1e6)
AXES = (LATENCY, MEMORY)


def costs_of(result: CellResult) -> Costs | None:
    """What a cell measured of its answers; ``None`` where it measured nothing."""
    found = result.facts.get("costs")
    return None if found is None else Costs(**found, training=result.facts["train_seconds"])


def front(points: Mapping[str, tuple[float, float]]) -> tuple[str, ...]:
    """The names of those that no other beats: none is at least as good for at most the cost, and better in one.

    Args:
        points: quality, of which more is better, and cost.
    """

    def beaten(name: str) -> bool:
        good, dear = points[name]
        return any(g >= good and d <= dear and (g, d) != (good, dear) for g, d in points.values())

    return tuple(name for name in points if not beaten(name))
