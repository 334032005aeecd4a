"""The sides of a comparison, measured in turns: A B C A B C, medians, ratios within the same run."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.harness.worker import Broken, Missing, Worker

OURS = "variorum"
PLAIN = f"{OURS}, plain model"


@dataclasses.dataclass(frozen=True)
class Side:
    """One engine at one job.

    Args:
        name: how the table calls it; ours begin with ``variorum``.
        make: the function that makes the job, ``"module:function"``.
        given: its arguments.
    """

    name: str
    make: str
    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Timed:
    """What came of a side: seconds of every call, the answer, or why there is none."""

    seconds: list[float] = dataclasses.field(default_factory=list)
    answer: Any = None
    note: str = ""

    @property
    def median(self) -> float | None:
        """The median of its calls; ``None`` where there were none."""
        return statistics.median(self.seconds) if self.seconds else None

    def percentile(self, share: float) -> float | None:
        """The time that this share of the calls stayed within."""
        return (
            sorted(self.seconds)[min(int(share * len(self.seconds)), len(self.seconds) - 1)] if self.seconds else None
        )


def interleaved(sides: Sequence[Side], *, rounds: int, calls: int = 1) -> dict[str, Timed]:
    """Every side in every round, one after the other, each in a process of its own that sleeps while others work.

    Args:
        sides: who takes part; one that is missing or fails says so in its note, and the others go on.
        rounds: turns of each.
        calls: of the job in each turn.
    """
    return interleaved_cases(sides, [{}], rounds=rounds, calls=calls)[0]


def interleaved_cases(
    sides: Sequence[Side], cases: Sequence[Mapping[str, Any]], *, rounds: int, calls: int = 1
) -> list[dict[str, Timed]]:
    """The same for jobs that take an argument: each round runs every case on every side. One result for each case.

    The first call of each case is not timed; its answer is the one that is kept.
    """
    found = [{side.name: Timed() for side in sides} for _ in cases]
    with contextlib.ExitStack() as open_ones:
        workers: dict[str, Worker] = {}
        for side in sides:
            worker = Worker()
            open_ones.callback(worker.close)
            with _noting([case[side.name] for case in found]):
                worker.make(side.make, side.given)
                for case, timed in zip(cases, found, strict=True):
                    timed[side.name].answer = worker.run(1, case)[1]
                workers[side.name] = worker
        for _ in range(rounds):
            for case, timed in zip(cases, found, strict=True):
                for name, worker in workers.items():
                    with _noting([timed[name]]):
                        timed[name].seconds += worker.run(calls, case)[0]
    return found


@contextlib.contextmanager
def _noting(all_timed: Sequence[Timed]) -> Iterator[None]:
    note = ""
    try:
        yield
    except Missing as error:
        note = f"not measured: {error}"
    except Broken as error:
        note = f"failed: {error}"
    for timed in all_timed if note else ():
        timed.note, timed.seconds = note, []


def named(engine: str, weights: str) -> str:
    """An engine's name with the type of its weights, where that is not float32."""
    return engine if weights == "float32" else f"{engine}, {weights}"


def per_second(amount: float, timed: Timed) -> float | None:
    """So much work by the median time; ``None`` where there is none."""
    return amount / timed.median if timed.median else None


def ratios(found: Mapping[str, Timed], base: str) -> dict[str, float]:
    """How many times as fast as ``base`` each side is, by medians."""
    one = found[base].median if base in found else None
    if one is None:
        return {}
    return {name: one / timed.median for name, timed in found.items() if timed.median}


def compared(found: Mapping[str, Timed], ours: str, base: str, peers: Sequence[str]) -> dict[str, float]:
    """The two figures that most goals are about; one that was not measured is left out."""
    ratio = ratios(found, base)
    fastest = max((ratio[name] for name in peers if name in ratio), default=None)
    figures = {}
    if ours in ratio:
        figures["over transformers"] = ratio[ours]
        if fastest is not None:
            figures["over the best peer"] = ratio[ours] / fastest
    return figures


def failures(found: Mapping[str, Timed]) -> list[str]:
    """Why ours was not measured, where it was not."""
    return [f"{name}: {timed.note}" for name, timed in found.items() if name.startswith(OURS) and timed.note]
