"""A study from its declaration to its finding: plan, compute what is missing, judge.

What is compared is declared elsewhere; `run` computes, `analysis` judges, `report` shows. What was declared first in a
folder holds: a design that is read there at other seed counts gets no verdicts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from variorum.errors import RunFailed, UsageError
from variorum.files import sweep, write_whole
from variorum.study import manifest
from variorum.study.analysis import Outcome, Truth, analyse
from variorum.study.cells import Cell, CellResult, CellStore, fingerprint
from variorum.study.design import Study
from variorum.study.executor import Executor
from variorum.study.executors import Named, executor
from variorum.study.plan import Measured, Plan, render, summary
from variorum.study.room import default_workers
from variorum.study.run import Ran, by_arm, cached, compute, measure

THREADS = 1
"""Of every cell: other numbers give other bits."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a run may use.

    Attributes:
        time: seconds that the cells may take by the plan's upper estimate, None for any.
        workers: cells side by side, one thread each; None for one per core, or what is usual for the executor.
        executor: what runs them.
    """

    time: float | None = None
    workers: int | None = None
    executor: Named = "local"

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise UsageError("at least one worker is needed", where="--workers")

    def opened(self, folder: Path, cells: int) -> Executor:
        """The executor for so many cells of a study in ``folder``."""
        workers = self.workers or (default_workers() if self.executor == "local" else None)
        most = None if workers is None else max(1, min(workers, cells))
        return executor(self.executor, workers=most, threads=THREADS, folder=folder)


ANY = Limits()


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a report says beside its figures: its title, what to bear in mind, and where the data are from."""

    title: str
    lead: str
    colophon: str


@dataclass(frozen=True, kw_only=True)
class Trials:
    """Cells that are computed first, and what they decide.

    Attributes:
        decide: the study that follows from their results by cell key; a cell that failed has none.
    """

    cells: tuple[Cell, ...]
    decide: Callable[[Mapping[str, CellResult]], Declared]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Everything that is fixed before the run.

    Attributes:
        steps: what the budget's dial stands at, to say what would fit.
        truths: the true labels, of the studies that have such. texts: their items, for examples of errors.
        trials: what decides the rest; until then the cells only say what it costs.
        measured: arms whose steps were timed to get this far.
    """

    out: Path
    studies: tuple[Study, ...]
    cells: tuple[Cell, ...]
    page: Page
    steps: int
    truths: Mapping[str, Truth] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    limits: Limits = ANY
    trials: Trials | None = None
    measured: Mapping[tuple[str, str], Measured] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What came out: an outcome per study, the plan, and the cells that failed, with their causes.

    ``seconds`` and ``memory`` are what the run took where the plan foretold its band and its memory.
    """

    outcomes: tuple[Outcome, ...]
    plan: Plan
    declared: Declared
    failures: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0
    memory: int = 0


def declared_looks(out: Path, cells: Sequence[Cell], looks: tuple[int, ...], *, keep: bool = True) -> tuple[int, ...]:
    """The looks that this design was declared with in this folder: ``looks``, if it is new here.

    Reading the same cells again with more seeds is another look at the same data; what was declared first holds.
    """
    design = fingerprint([cell.design for cell in cells if cell.seed == 0])
    path = out / "declared.json"
    try:
        known: dict[str, list[int]] = dict(json.loads(path.read_bytes()))
        if design in known:
            return tuple(int(look) for look in known[design])
    except (OSError, ValueError, TypeError):
        known = {}
    if keep:
        write_whole(path, json.dumps({**known, design: list(looks)}, indent=1).encode())
    return looks


def unmeasured(declared: Declared, store: CellStore) -> Plan:
    """The plan before any step was timed."""
    tried, trials = declared.trials, declared.trials.cells if declared.trials else ()
    return Plan(
        studies=declared.studies, cells=declared.cells, trials=trials,
        cached=frozenset(cached(trials if tried else declared.cells, store)),
        workers=min(declared.limits.workers or default_workers(), len(declared.cells)), threads=THREADS,
        steps=declared.steps, out=declared.out,
    )  # fmt: skip


def _measured(plan: Plan, declared: Declared, crew: Executor, notes: TextIO) -> Plan:
    """The plan with what a few steps of every arm take on these workers."""
    known = declared.measured
    fresh = [cell for cell in plan.pending if (cell.study, cell.arm) not in known]
    if fresh:
        print("measuring a few steps of every arm …", file=notes, flush=True)
    measured, failed = measure(fresh, crew, notes)
    workers = min(crew.workers, len(declared.cells))
    return replace(plan, measured={**known, **measured}, failed=failed, workers=workers, available=crew.memory())


def plan_only(declared: Declared, *, stream: TextIO | None = None) -> Plan:
    """Measure and plan, compute nothing; whether it fits is for :meth:`Plan.check` to say."""
    plan = unmeasured(declared, CellStore(declared.out / "cells"))
    if plan.pending:
        with declared.limits.opened(declared.out, len(plan.pending)) as crew:
            plan = _measured(plan, declared, crew, stream or sys.stderr)
    return plan


def run(declared: Declared, *, stream: TextIO | None = None) -> Finding:
    """Plan, compute what is missing, and judge. Files: cells as they finish; `report` writes the rest.

    Raises:
        OverBudget: the plan does not fit. RunFailed: not one cell finished.
    """
    notes, store = stream or sys.stderr, CellStore(declared.out / "cells")
    sweep(declared.out)
    declared = _decided(declared, store)
    plan, ran = unmeasured(declared, store), Ran()
    if plan.pending:
        with declared.limits.opened(declared.out, len(plan.pending)) as crew:
            plan = _measured(plan, declared, crew, notes)
            print(f"\n{render(plan)}\n", file=notes, flush=True)
            plan.check(time_limit=declared.limits.time)
            declared, ran = _computed(declared, plan, store, crew, notes)
    else:
        print(summary(plan), file=notes, flush=True)
    results = cached(declared.cells, store) | ran.results
    if not results:
        cell, cause = ran.failures[0]
        raise RunFailed(f"every cell failed, the first with: {cause}", where=cell.name)
    outcomes = tuple(
        analyse(study, by_arm(study, declared.cells, results), declared.truths.get(study.name))
        for study in declared.studies
    )
    failures = tuple((cell.name, cause) for cell, cause in ran.failures)
    return Finding(
        outcomes=outcomes, plan=plan, declared=declared, failures=failures, seconds=ran.seconds, memory=ran.memory
    )


def _decided(declared: Declared, store: CellStore) -> Declared:
    """The study that its trials decided, if all of them are there."""
    trials = declared.trials
    if trials is None:
        return declared
    found = cached(trials.cells, store)
    return trials.decide(found) if len(found) == len(trials.cells) else declared


def _computed(declared: Declared, plan: Plan, store: CellStore, crew: Executor, notes: TextIO) -> tuple[Declared, Ran]:
    """Compute trials, if there are any, and then the cells that they decide, pinned before the first of them."""
    todo, tried = plan.pending, Ran()
    if (trials := declared.trials) is not None:
        tried = compute(plan.untried, plan, store, crew, notes, finished=lambda cell, result: _tried(result))
        declared = trials.decide(cached(trials.cells, store))
        done = frozenset(cached(declared.cells, store))
        todo = replace(plan, cells=declared.cells, cached=done).pending
    manifest.write(declared.out, declared.studies, declared.cells)
    ran = compute(todo, plan, store, crew, notes, finished=partial(_said, declared))
    return declared, replace(
        ran, seconds=ran.seconds + tried.seconds, memory=max(ran.memory, tried.memory),
        failures=[*tried.failures, *ran.failures],
    )  # fmt: skip


def _tried(result: CellResult) -> str:
    score = f"{sum(result.items) / len(result.items):.4f}" if result.items else "diverged"
    return f"{score}, {result.facts['seconds']:.0f} s"


def _said(declared: Declared, cell: Cell, result: CellResult) -> str:
    study = next(study for study in declared.studies if study.name == cell.study)
    known = {(cell.arm, study.seeds[0]): result}
    outcome = analyse(replace(study, claims=()), known, declared.truths.get(study.name))
    return f"{study.metric.name} {study.metric.shown(outcome.figures[0].mean)}, {result.facts['seconds']:.0f} s"
