"""A study from its declaration to its finding: plan, compute what is missing, judge.

What is compared is declared elsewhere; `run` computes, `analysis` judges, `report` shows. What was declared first in a
folder holds: a design that is read there at other seed counts gets no verdicts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from variorum.errors import RunFailed, UsageError
from variorum.study.analysis import Outcome, Truth, analyse
from variorum.study.cells import Cell, CellResult, CellStore, fingerprint
from variorum.study.design import Study
from variorum.study.executor import LocalPool
from variorum.study.files import write_whole
from variorum.study.plan import Plan, default_workers, render, summary
from variorum.study.run import Ran, by_arm, cached, compute, measure


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a run may use.

    Attributes:
        time: seconds that the cells may take by the plan's upper estimate, None for any.
        workers: cells side by side, one thread each; None for one per core.
    """

    time: float | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise UsageError("at least one worker is needed", where="--workers")


ANY = Limits()


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a report says beside its figures: its title, what to bear in mind, and where the data are from."""

    title: str
    lead: str
    colophon: str


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Everything that is fixed before the run.

    Attributes:
        steps: what the budget's dial stands at, to say what would fit.
        truths: the true labels, of the studies that have such. texts: their items, for examples of errors.
    """

    out: Path
    studies: tuple[Study, ...]
    cells: tuple[Cell, ...]
    page: Page
    steps: int
    truths: Mapping[str, Truth] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    limits: Limits = ANY


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What came out: an outcome per study, the plan, and the cells that failed, with their causes."""

    outcomes: tuple[Outcome, ...]
    plan: Plan
    declared: Declared
    failures: tuple[tuple[str, str], ...] = ()


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
    return Plan(
        studies=declared.studies, cells=declared.cells, cached=frozenset(cached(declared.cells, store)), measured={},
        workers=min(declared.limits.workers or default_workers(), len(declared.cells)), threads=1,
        steps=declared.steps, out=declared.out,
    )  # fmt: skip


def plan_only(declared: Declared, *, stream: TextIO | None = None) -> Plan:
    """Measure and plan, compute nothing."""
    plan = unmeasured(declared, CellStore(declared.out / "cells"))
    if plan.pending:
        with LocalPool(workers=plan.workers, threads=plan.threads) as pool:
            measured = measure(plan.pending, pool, stream or sys.stderr, workers=plan.workers)
            plan = replace(plan, measured=measured)
    return plan


def run(declared: Declared, *, stream: TextIO | None = None) -> Finding:
    """Plan, compute what is missing, and judge. Files: cells as they finish; `report` writes the rest.

    Raises:
        OverBudget: the plan does not fit. RunFailed: not one cell finished.
    """
    notes, store = stream or sys.stderr, CellStore(declared.out / "cells")
    plan = unmeasured(declared, store)
    results = cached(declared.cells, store)
    ran = Ran()
    if plan.pending:
        with LocalPool(workers=plan.workers, threads=plan.threads) as pool:
            print("measuring a few steps of every arm …", file=notes, flush=True)
            plan = replace(plan, measured=measure(plan.pending, pool, notes, workers=plan.workers))
            print(f"\n{render(plan)}\n", file=notes, flush=True)
            plan.check(time_limit=declared.limits.time)
            ran = compute(plan, store, pool, notes, finished=partial(_said, declared))
    else:
        print(summary(plan), file=notes, flush=True)
    results |= ran.results
    if not results:
        cell, cause = ran.failures[0]
        raise RunFailed(f"every cell failed, the first with: {cause}", where=cell.name)
    outcomes = tuple(
        analyse(study, by_arm(study, declared.cells, results), declared.truths.get(study.name))
        for study in declared.studies
    )
    failures = tuple((cell.name, cause) for cell, cause in ran.failures)
    return Finding(outcomes=outcomes, plan=plan, declared=declared, failures=failures)


def _said(declared: Declared, cell: Cell, result: CellResult) -> str:
    study = next(study for study in declared.studies if study.name == cell.study)
    known = {(cell.arm, study.seeds[0]): result}
    outcome = analyse(replace(study, claims=()), known, declared.truths.get(study.name))
    return f"{study.metric.name} {study.metric.shown(outcome.figures[0].mean)}, {result.facts['seconds']:.0f} s"
