"""Carries a study through: measure, plan, compute what is missing, keep every finished cell.

It knows cells and executors, not what a cell computes. Killed anywhere and called again, it computes only what
is not yet on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from variorum.study.cells import Cell, CellResult, CellStore
from variorum.study.design import Study
from variorum.study.executor import Advanced, Executor, Failed, Finished, Job
from variorum.study.files import write_whole
from variorum.study.plan import Measured, Plan
from variorum.study.progress import Progress

PROBE_STEPS = 4
"""Steps of each arm that the plan is measured from; the first one warms up and is left out."""


@dataclass(kw_only=True)
class Ran:
    """What a run left: results by cell key, and what failed and why."""

    results: dict[str, CellResult] = field(default_factory=dict)
    failures: list[tuple[Cell, str]] = field(default_factory=list)


def cached(cells: Iterable[Cell], store: CellStore) -> dict[str, CellResult]:
    """The results that are already on disk, by key."""
    return {cell.key: result for cell in cells if (result := store.get(cell)) is not None}


def measure(
    cells: Sequence[Cell], executor: Executor, stream: TextIO, *, workers: int
) -> dict[tuple[str, str], Measured]:
    """A few real steps of every (study, arm) among ``cells``, run side by side as the cells will be.

    An arm that fails here is left out: its cells will fail too, each with its cause.
    """
    first: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        first.setdefault((cell.study, cell.arm), cell)
    jobs = {
        f"{study}/{arm}": Job(name=f"{study}/{arm}", call=cell.call, arguments={**cell.work, "steps": PROBE_STEPS})
        for (study, arm), cell in first.items()
    }
    progress = Progress(dict.fromkeys(jobs, 2.0), workers=workers, stream=stream)
    measured: dict[tuple[str, str], Measured] = {}
    for event in executor.run(list(jobs.values())):
        if isinstance(event, Advanced):
            progress.advance(event.job.name, event.done / PROBE_STEPS)
        progress.tick()
        if isinstance(event, Finished):
            study, _, arm = event.job.name.partition("/")
            measured[study, arm] = _measured(event.result, first[study, arm].steps)
    progress.close()
    return measured


def _measured(result: CellResult, steps: int) -> Measured:
    facts: dict[str, Any] = dict(result.facts)
    timed = facts["step_seconds"][1:] or facts["step_seconds"]
    return Measured(
        step_seconds=tuple(timed),
        fixed_seconds=max(0.0, facts["seconds"] - facts["train_seconds"]) if steps > 1 else 0.0,
        peak_bytes=facts["peak_bytes"],
        parameters=facts["parameters"],
    )


def compute(
    plan: Plan,
    store: CellStore,
    executor: Executor,
    stream: TextIO,
    *,
    finished: Callable[[Cell, CellResult], str],
) -> Ran:
    """Compute the pending cells; store each as it ends; a failed one is noted and the others go on.

    Args:
        finished: words for a finished cell's line.
    """
    ran = Ran()
    cells = {cell.name: cell for cell in plan.pending}
    progress = Progress(
        {name: plan.expected(cell) for name, cell in cells.items()}, workers=plan.workers, stream=stream
    )
    jobs = [Job(name=name, call=cell.call, arguments=cell.work) for name, cell in cells.items()]
    try:
        for event in executor.run(jobs):
            if isinstance(event, Advanced):
                progress.advance(event.job.name, event.done / cells[event.job.name].steps)
            elif isinstance(event, Finished):
                cell = cells[event.job.name]
                store.put(cell, event.result)
                ran.results[cell.key] = event.result
                progress.settle(cell.name, f"{cell.name}: {finished(cell, event.result)}")
            elif isinstance(event, Failed):
                cell = cells[event.job.name]
                ran.failures.append((cell, event.cause))
                log = failure_log(store.folder.parent, cell)
                write_whole(log, event.detail.encode())
                progress.settle(cell.name, f"{cell.name}: FAILED: {event.cause} (details in {log})")
            progress.tick()
    finally:
        progress.close()
    return ran


def failure_log(out: Path, cell: Cell) -> Path:
    """Where the details of a failed cell are kept."""
    return out / "failures" / f"{cell.study}-{cell.arm}-seed{cell.seed}.txt".replace("/", "-")


def by_arm(study: Study, cells: Iterable[Cell], results: dict[str, CellResult]) -> dict[tuple[str, int], CellResult]:
    """The results of one study by (arm, seed)."""
    return {
        (cell.arm, cell.seed): results[cell.key] for cell in cells if cell.study == study.name and cell.key in results
    }
