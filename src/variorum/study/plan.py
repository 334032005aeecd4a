"""The plan: what will run, what it will cost here, and whether it fits.

Costs come from a few real steps of every arm, run as the cells will be run: side by side, with the same
threads. A plan that does not fit memory, disk or the time allowed is refused before anything is computed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from variorum.errors import OverBudget
from variorum.study import words
from variorum.study.cells import Cell
from variorum.study.design import Study
from variorum.study.progress import clock
from variorum.study.room import free_space

DISK_PER_CELL = 256 * 1024
"""Bytes one cell's result may take; the largest seen was 60 KiB."""
DISK_FIXED = 32 * 1024**2
"""Bytes for tokenised data and the report."""
FEWEST_STEPS = 6
"""With fewer there is no learning curve to draw."""
FASTER, SLOWER = 0.85, 1.3
"""Ends of the time band over the measured pace: neighbours, caches, temperature."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A few real steps of one arm.

    Attributes:
        step_seconds: each measured step, the warm-up left out. fixed_seconds: all else that one cell takes.
        priced_seconds: what a cell takes beside, in which the costs of an answer are measured.
        peak_bytes: resident memory of the worker at its height. parameters: trained numbers.
    """

    step_seconds: tuple[float, ...]
    fixed_seconds: float
    peak_bytes: int
    parameters: int
    priced_seconds: float = 0.0

    @property
    def pace(self) -> float:
        """Seconds of a usual step."""
        return median(self.step_seconds)

    def seconds(self, steps: int) -> float:
        """What a cell of so many steps takes."""
        return self.pace * steps + self.fixed_seconds


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Studies, their cells, which are already there, and the measured cost of the others.

    Attributes:
        trials: cells that come first, for what they find decides the others.
        failed: arms whose measured steps failed, with the cause.
        steps: what the budget's dial stands at, to say what would fit.
        available: bytes of memory that the workers may take; None where nobody says.
    """

    studies: tuple[Study, ...]
    cells: tuple[Cell, ...]
    cached: frozenset[str]
    workers: int
    threads: int
    steps: int
    out: Path
    trials: tuple[Cell, ...] = ()
    measured: Mapping[tuple[str, str], Measured] = field(default_factory=dict)
    failed: Mapping[tuple[str, str], str] = field(default_factory=dict)
    available: int | None = None

    @property
    def pending(self) -> tuple[Cell, ...]:
        """Cells that must be computed, the costliest of each seed first, so that the last ones end together."""
        return self._left(self.cells)

    @property
    def untried(self) -> tuple[Cell, ...]:
        """Trials that must be computed."""
        return self._left(self.trials)

    def _left(self, cells: Iterable[Cell]) -> tuple[Cell, ...]:
        todo = [cell for cell in cells if cell.key not in self.cached]
        return tuple(sorted(todo, key=lambda cell: (cell.seed, -self.expected(cell))))

    def expected(self, cell: Cell) -> float:
        """Expected seconds of a cell."""
        found = self.measured.get((cell.study, cell.arm))
        if found is None:
            return 1.0
        return found.seconds(cell.steps) + (found.priced_seconds if cell.work.get("priced") else 0.0)

    @property
    def band(self) -> tuple[float, float]:
        """Seconds that the trials and then the cells take, low and high, on this plan's workers."""
        whole = 0.0
        for stage in (self.untried, self.pending):
            known = [cell for cell in stage if (cell.study, cell.arm) in self.measured]
            whole += until_all_end([self.expected(cell) for cell in known], self.workers)
        return FASTER * whole, SLOWER * whole

    @property
    def memory(self) -> int:
        """Bytes at the height of the run: every worker at its costliest arm."""
        return self.workers * max((m.peak_bytes for m in self.measured.values()), default=0)

    @property
    def disk(self) -> int:
        """Bytes to be written."""
        return DISK_FIXED + DISK_PER_CELL * len((*self.untried, *self.pending))

    def check(self, *, time_limit: float | None, disk: int | None = None) -> None:
        """Refuse what does not fit.

        Args:
            time_limit: seconds allowed, None for any.
            disk: bytes free; read from the machine where not given.

        Raises:
            OverBudget: with what is needed, what is there, and what would fit.
        """
        have_disk = free_space(self.out) if disk is None else disk
        if self.available is not None and self.memory > self.available:
            raise OverBudget(
                f"needs {gib(self.memory)} of memory, {gib(self.available)} is available",
                where="study plan",
                remedy="run fewer workers (--workers 1)",
            )
        if self.disk > have_disk:
            raise OverBudget(
                f"needs {gib(self.disk)} of disk, {gib(have_disk)} is free",
                where=str(self.out),
                remedy="choose another --out",
            )
        if time_limit is not None and self.band[1] > time_limit:
            fewer = int(self.steps * time_limit / self.band[1])
            raise OverBudget(
                f"takes up to {clock(self.band[1])}, {clock(time_limit)} is allowed",
                where="study plan",
                remedy=f"about --steps {fewer} would fit" if fewer >= FEWEST_STEPS else "allow more with --time-limit",
            )


def until_all_end(seconds: Sequence[float], workers: int) -> float:
    """When the last of several jobs ends, each begun in turn by the first worker that is free."""
    free = [0.0] * workers
    for one in seconds:
        heapq.heapreplace(free, free[0] + one)
    return max(free)


def render(plan: Plan) -> str:
    """The plan as plain text, printed before anything runs."""
    lines: list[str] = []
    for study in plan.studies:
        cells = [cell for cell in plan.cells if cell.study == study.name]
        lines += [study.title, f"  {study.question}", f"  budget   {study.budget}", f"  items    {study.items}"]
        better = "lower" if study.metric.lower_is_better else "higher"
        lines.append(f"  measure  {study.metric.name} ({study.metric.unit}), {better} is better")
        lines.append(f"  seeds    {', '.join(map(str, study.seeds))}; read at {words.either(study.looks)} seeds")
        lines.append(f"  level    {level(study)}")
        lines += [f"  claim    {claim.name}" for claim in study.claims]
        lines += [f"  equal    {line}" for line in study.equal]
        lines += [f"  unequal  {line}" for line in study.unequal]
        lines.append("")
        lines += _cost_table(plan, study, cells)
        lines.append("")
    lines.append(summary(plan))
    return "\n".join(lines)


def level(study: Study) -> str:
    """How the level of each interval comes about."""
    looks = f"{len(study.looks)} look{'s' if len(study.looks) > 1 else ''}"
    return f"α = 0.05 / ({len(study.claims)} claims × {looks}) = {study.alpha:.4f} for each interval"


def _cost_table(plan: Plan, study: Study, cells: Sequence[Cell]) -> list[str]:
    width = max(len(arm.title) for arm in study.arms)
    lines = [f"  {'arm':{width}}  {'cells':>11}  {'parameters':>11}  {'s/step':>7}  {'s/cell':>7}"]
    for arm in study.arms:
        mine = [cell for cell in cells if cell.arm == arm.name]
        ready = sum(cell.key in plan.cached for cell in mine)
        count = f"{len(mine)}" + (f" ({ready} ready)" if ready else "")
        found = plan.measured.get((study.name, arm.name))
        if found is None:
            why = plan.failed.get((study.name, arm.name))
            lines.append(f"  {arm.title:{width}}  {count:>11}  {f'FAILED: {why}' if why else 'nothing to measure'}")
            continue
        cost = found.seconds(mine[0].steps)
        lines.append(f"  {arm.title:{width}}  {count:>11}  {found.parameters:>11,}  {found.pace:>7.3f}  {cost:>7.1f}")
    return lines


def summary(plan: Plan) -> str:
    """One line: cells, time band, memory, disk."""
    ready = len(plan.cells) - len(plan.pending)
    if not plan.pending:
        return f"{len(plan.cells)} cells, all ready: nothing to compute."
    low, high = plan.band
    return (
        (f"{len(plan.untried)} trials and " if plan.untried else "")
        + f"{len(plan.pending)} cells to compute"
        + (f" ({ready} ready)" if ready else "")
        + f": {clock(low)} to {clock(high)} on "
        f"{plan.workers} worker{'s' * (plan.workers > 1)} of {plan.threads} thread{'s' * (plan.threads > 1)}, "
        f"memory {gib(plan.memory)}, disk up to {gib(plan.disk)}."
    )


def gib(size: int) -> str:
    """Bytes for people."""
    return f"{size / 1024**3:.1f} GiB" if size >= 1024**3 else f"{size / 1024**2:.0f} MiB"


def as_json(plan: Plan) -> dict[str, object]:
    """The plan for programs."""
    low, high = plan.band
    return {
        "cells": len(plan.cells),
        "to_compute": len(plan.pending),
        "trials": len(plan.untried),
        "seconds": [low, high],
        "memory_bytes": plan.memory,
        "disk_bytes": plan.disk,
        "workers": plan.workers,
        "threads": plan.threads,
        "studies": [
            {
                "name": study.name,
                "question": study.question,
                "budget": study.budget,
                "items": study.items,
                "seeds": study.seeds,
                "looks": study.looks,
                "alpha": study.alpha,
                "claims": [claim.name for claim in study.claims],
                "equal": study.equal,
                "unequal": study.unequal,
                "arms": [
                    {
                        "name": arm.name,
                        "title": arm.title,
                        "measured": plan.measured.get((study.name, arm.name)),
                        "failed": plan.failed.get((study.name, arm.name), ""),
                    }
                    for arm in study.arms
                ],
            }
            for study in plan.studies
        ],
    }
