"""Carries a study through: measure, plan, compute what is missing, keep every finished cell.

It knows cells and executors, not what a cell computes. Killed anywhere and called again, it computes only what
is not yet on disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from variorum.files import write_whole
from variorum.inference.peak import ROOM
from variorum.study.cells import Cell, CellResult, CellStore
from variorum.study.design import Study
from variorum.study.executor import Advanced, Executor, Failed, Finished, Job
from variorum.study.plan import Measured, Plan
from variorum.study.progress import Progress

PROBE_STEPS = 6
"""Steps of each arm that the plan is measured from; the first one warms up and is left out."""


@dataclass(kw_only=True)
class Ran:
    """What a run left: results by cell key, what failed and why, seconds it took, bytes its workers took at most."""

    results: dict[str, CellResult] = field(default_factory=dict)
    failures: list[tuple[Cell, str]] = field(default_factory=list)
    seconds: float = 0.0
    memory: int = 0


def cached(cells: Iterable[Cell], store: CellStore) -> dict[str, CellResult]:
    """The results that are already on disk, by key."""
    return {cell.key: result for cell in cells if (result := store.get(cell)) is not None}


def measure(
    cells: Sequence[Cell], executor: Executor, stream: TextIO
) -> tuple[dict[tuple[str, str], Measured], dict[tuple[str, str], str]]:
    """A few real steps of every (study, arm) among ``cells``, run side by side as the cells will be.

    Returns what they took, and for the arms that failed, the cause.
    """
    first: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        first.setdefault((cell.study, cell.arm), cell)
    jobs = {
        f"{study}/{arm}": Job(name=f"{study}/{arm}", call=cell.call, arguments={**cell.work, "steps": PROBE_STEPS})
        for (study, arm), cell in first.items()
    }
    arms = dict(zip(jobs, first, strict=True))
    progress = Progress(dict.fromkeys(jobs, 2.0), workers=executor.workers, stream=stream)
    measured: dict[tuple[str, str], Measured] = {}
    failed: dict[tuple[str, str], str] = {}
    for event in executor.run(list(jobs.values())):
        if isinstance(event, Advanced):
            progress.advance(event.job.name, event.done / PROBE_STEPS)
        progress.tick()
        if isinstance(event, Finished):
            measured[arms[event.job.name]] = _measured(event.result)
        elif isinstance(event, Failed):
            failed[arms[event.job.name]] = event.cause
    progress.close()
    return measured, failed


def _measured(result: CellResult) -> Measured:
    facts: Mapping[str, Any] = result.facts
    return Measured(
        step_seconds=tuple(facts["step_seconds"][1:] or facts["step_seconds"]),
        fixed_seconds=facts["rest_seconds"],
        priced_seconds=facts.get("priced_seconds", 0.0),
        peak_bytes=int(ROOM * facts["peak_bytes"]),
        parameters=facts["parameters"],
    )


def compute(
    cells: Sequence[Cell],
    plan: Plan,
    store: CellStore,
    executor: Executor,
    stream: TextIO,
    *,
    finished: Callable[[Cell, CellResult], str],
) -> Ran:
    """Compute cells; store each as it ends; a failed one is noted and the others go on.

    Args:
        plan: says how long each takes.
        finished: words for a finished cell's line.
    """
    ran, begun, heights = Ran(), time.monotonic(), dict[str, int]()
    by_name = {cell.name: cell for cell in cells}
    progress = Progress(
        {name: plan.expected(cell) for name, cell in by_name.items()}, workers=executor.workers, stream=stream
    )
    jobs = [Job(name=name, call=cell.call, arguments=cell.work) for name, cell in by_name.items()]
    try:
        for event in executor.run(jobs):
            if isinstance(event, Advanced):
                progress.advance(event.job.name, event.done / by_name[event.job.name].steps)
            elif isinstance(event, Finished):
                cell = by_name[event.job.name]
                store.put(cell, event.result)
                ran.results[cell.key] = event.result
                heights[event.worker] = max(heights.get(event.worker, 0), event.result.facts["peak_bytes"])
                progress.settle(cell.name, f"{cell.name}: {finished(cell, event.result)}")
            elif isinstance(event, Failed):
                cell = by_name[event.job.name]
                ran.failures.append((cell, event.cause))
                log = failure_log(store.folder.parent, cell)
                write_whole(log, event.detail.encode())
                progress.settle(cell.name, f"{cell.name}: FAILED: {event.cause} (details in {log})")
            progress.tick()
    finally:
        progress.close()
    ran.seconds = time.monotonic() - begun
    ran.memory = sum(sorted(heights.values())[-executor.workers :])
    return ran


def failure_log(out: Path, cell: Cell) -> Path:
    """Where the details of a failed cell are kept."""
    return out / "failures" / f"{cell.name}.txt".replace("/", "-").replace(" ", "-")


def by_arm(study: Study, cells: Iterable[Cell], results: dict[str, CellResult]) -> dict[tuple[str, int], CellResult]:
    """The results of one study by (arm, seed)."""
    return {
        (cell.arm, cell.seed): results[cell.key] for cell in cells if cell.study == study.name and cell.key in results
    }
