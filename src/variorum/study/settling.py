"""What has to be found out before a study of pretraining can be fixed: how many steps a time is, and which rates suit.

Both are settled once. Steps are kept in the study's folder, so that a study that is resumed or extended has the same;
rates follow from trials, which are cells like others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from variorum.errors import RunFailed
from variorum.files import write_whole
from variorum.study.cells import Cell, CellResult
from variorum.study.design import Arm
from variorum.study.plan import FEWEST_STEPS, Measured
from variorum.study.run import measure
from variorum.study.session import THREADS, Limits
from variorum.training.recipes import Settled

PACES = "paces.json"
TRIED = "variorum.study.jobs:tried_cell"
SHARE = 0.2
"""Of a cell's steps that a trial has."""
OWN_SEED = 1_000_003
"""Of trials: no seed that a study reports ever reaches it."""


@dataclass(frozen=True)
class Trained:
    """An arm with all that is settled of its training; ``scores`` are what its trials gave, by rate."""

    arm: Arm
    settled: Settled
    steps: int
    scores: Mapping[float, float] | None = None


def paces(
    cells: Sequence[Cell], out: Path, *, limits: Limits, keep: bool, say: Callable[[str], None]
) -> tuple[dict[str, float], dict[tuple[str, str], Measured]]:
    """Seconds of a step of every arm, as they were measured first in ``out``; and what was measured now.

    Raises:
        RunFailed: the first steps of an arm fail.
    """
    known = _known(out / PACES)
    fresh, measured = [cell for cell in cells if cell.design not in known], dict[tuple[str, str], Measured]()
    if fresh:
        say("measuring how many steps the time is …")
        with limits.opened(out, len(fresh)) as crew:
            measured, failed = measure(fresh, crew, sys.stderr)
        for (_, arm), cause in failed.items():
            raise RunFailed(f"its first steps failed: {cause}", where=arm)
        known |= {cell.design: measured[cell.study, cell.arm].pace for cell in fresh}
        if keep:
            write_whole(out / PACES, json.dumps(known, indent=1).encode())
    return {cell.arm: known[cell.design] for cell in cells}, measured


def _known(path: Path) -> dict[str, float]:
    try:
        return {str(design): float(pace) for design, pace in json.loads(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def trials(one: Trained, rates: Sequence[float], cell: Cell) -> dict[float, Cell]:
    """A short cell for each rate, on training texts alone, with a seed of its own.

    Args:
        cell: any of the arm's; its plan says all else.
    """
    plan: Any = cell.work["plan"]
    steps = max(FEWEST_STEPS, round(SHARE * one.steps))
    found = {}
    for rate in rates:
        tried = replace(
            plan, settled=replace(plan.settled, rate=rate), steps=steps, every=steps, saves=steps, seed=OWN_SEED
        )  # fmt: skip
        found[rate] = Cell(
            study=cell.study, arm=cell.arm, seed=OWN_SEED, call=TRIED, data=cell.data, steps=steps, threads=THREADS,
            work={"plan": tried, "folder": cell.work["folder"]}, apart=f"at rate {rate:g}",
        )  # fmt: skip
    return found


def picked(one: Trained, tried: Mapping[float, Cell], results: Mapping[str, CellResult]) -> Trained:
    """The arm at the rate of its best trial.

    Raises:
        RunFailed: all its trials failed.
    """
    scores = {}
    for rate, cell in tried.items():
        result = results.get(cell.key)
        if result is not None and result.items:
            scores[rate] = sum(result.items) / len(result.items)
    if not scores:
        raise RunFailed("every trial of a learning rate failed", where=one.arm.title)
    best = min(scores, key=lambda rate: scores[rate])
    return replace(one, settled=replace(one.settled, rate=best), scores=scores)


def told(one: Trained, rates: Sequence[float]) -> str:
    """Which rate was picked and what the others gave, in words."""
    assert one.scores is not None
    found = {rate: f"{one.scores[rate]:.3f}" if rate in one.scores else "failed" for rate in rates}
    gave = ", ".join(f"{rate:g}: {score}" for rate, score in found.items())
    edge = ", at the end of the grid" if one.settled.rate in (min(rates), max(rates)) else ""
    return f"{one.arm.title} {one.settled.rate:g} ({gave}{edge})"
