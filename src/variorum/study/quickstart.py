"""The quickstart: two studies in one run of a few minutes, on the texts that the package ships.

`walk` and `domain` say what is compared; `run` computes it, `analysis` judges it, `report` shows it. This file
ties them together and keeps what was declared first: a folder read at other seed counts gets no verdicts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from variorum.errors import RunFailed, UsageError
from variorum.study import corpora, domain, prepare, walk
from variorum.study.analysis import Outcome, Truth, analyse
from variorum.study.cells import Cell, CellResult, CellStore, fingerprint
from variorum.study.design import Study
from variorum.study.executor import LocalPool
from variorum.study.files import write_whole
from variorum.study.plan import FEWEST_STEPS, Plan, default_workers, render, summary
from variorum.study.run import Ran, by_arm, cached, compute, measure
from variorum.study.statistics import MIN_SEEDS

DEFAULT_OUT = Path("study-quickstart")
SEEDS, STEPS = 3, 60
CURVE_POINTS = FEWEST_STEPS


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the user may choose.

    Attributes:
        out: folder for data, cells, result and report. seeds: how many, from 0.
        steps: optimiser steps of each language model; classifiers take a fixed multiple.
        time_limit: seconds that the cells may take by the plan's upper estimate, None for any.
        workers: cells side by side, one thread each; None for one per core.
    """

    out: Path = DEFAULT_OUT
    seeds: int = SEEDS
    steps: int = STEPS
    time_limit: float | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise UsageError("an interval needs at least 2 seeds, a verdict 3", where="--seeds")
        if self.steps < CURVE_POINTS:
            raise UsageError(f"at least {CURVE_POINTS} steps are needed", where="--steps")
        if self.workers is not None and self.workers < 1:
            raise UsageError("at least one worker is needed", where="--workers")


@dataclass(frozen=True, kw_only=True)
class Quickstart:
    """Everything declared: both studies, their cells, and the truth of the labelled rows."""

    settings: Settings
    studies: tuple[Study, ...]
    cells: tuple[Cell, ...]
    truth: Truth
    test: tuple[corpora.Snippet, ...]

    def truth_of(self, study: Study) -> Truth | None:
        return None if study.metric.by_item else self.truth


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What came out: an outcome per study, the plan, and the cells that failed, with their causes."""

    outcomes: tuple[Outcome, ...]
    plan: Plan
    declared: Quickstart
    failures: tuple[tuple[str, str], ...] = ()


def declare(settings: Settings, *, keep: bool = True) -> Quickstart:
    """Fix arms, data, claims and cells. Texts are tokenised here, once.

    Args:
        keep: write down the looks, so that they hold for every later run in this folder; a dry run does not.
    """
    chapters, rows, text, labelled = _data(settings.out / "data")
    seeds = tuple(range(settings.seeds))
    label_steps = domain.STEPS_PER_STEP * settings.steps

    def made(looks: tuple[int, ...]) -> Quickstart:
        first = walk.design(chapters=chapters, steps=settings.steps, seeds=seeds, looks=looks)
        second = domain.design(rows=rows, steps=label_steps, seeds=seeds, looks=looks)
        return Quickstart(
            settings=settings,
            studies=(first, second),
            cells=(
                *walk.cells(first, text, steps=settings.steps, looks=_points(settings.steps)),
                *domain.cells(second, rows, labelled, steps=label_steps, looks=_points(label_steps)),
            ),
            truth=domain.truth(rows),
            test=rows.test,
        )

    looks = (max(settings.seeds, MIN_SEEDS),)
    fresh = made(looks)
    before = declared_looks(settings.out, fresh.cells, looks, keep=keep)
    return fresh if before == looks else made(before)


def _data(
    folder: Path,
) -> tuple[list[corpora.Chapter], domain.Rows, prepare.Prepared, prepare.Prepared]:
    chapters = corpora.chapters()
    train, test, leaks = corpora.without_leaks(corpora.snippets())
    train, test = corpora.spread(train, domain.TRAIN_ROWS), corpora.spread(test, domain.TEST_ROWS)
    text = prepare.novels(folder, chapters, vocab=walk.VOCAB, length=walk.LENGTH, windows=walk.WINDOWS)
    labelled = prepare.snippets(folder, train, test, vocab=domain.VOCAB, longest=domain.LENGTH)
    arrays = prepare.read(labelled)
    rows = domain.Rows(
        train=tuple(train),
        test=tuple(test),
        leaks=leaks,
        cut=(int(arrays["cut"][0]), int(arrays["cut"][1])),
        pad=int(arrays["wrapper"][0]),
    )
    return chapters, rows, text, labelled


def declared_looks(out: Path, cells: Sequence[Cell], looks: tuple[int, ...], *, keep: bool = True) -> tuple[int, ...]:
    """The looks that this design was declared with in this folder: ``looks``, if it is new here.

    Reading the same cells again with more seeds is another look at the same data; what was declared first holds.
    """
    design = fingerprint([cell.key for cell in cells if cell.seed == 0])
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


def _points(steps: int) -> tuple[int, ...]:
    """Evenly spread points of the learning curve; the last one is the cell's own score."""
    return tuple(sorted({round(steps * i / CURVE_POINTS) for i in range(1, CURVE_POINTS)} - {0, steps}))


def plan_only(settings: Settings, *, stream: TextIO | None = None) -> Plan:
    """Measure and plan, compute nothing, keep nothing but the tokenised text."""
    declared = declare(settings, keep=False)
    plan = _unmeasured(declared, CellStore(settings.out / "cells"))
    if plan.pending:
        with LocalPool(workers=plan.workers, threads=plan.threads) as pool:
            measured = measure(plan.pending, pool, stream or sys.stderr, workers=plan.workers)
            plan = replace(plan, measured=measured)
    return plan


def _unmeasured(declared: Quickstart, store: CellStore) -> Plan:
    return Plan(
        studies=declared.studies,
        cells=declared.cells,
        cached=frozenset(cached(declared.cells, store)),
        measured={},
        workers=min(declared.settings.workers or default_workers(), len(declared.cells)),
        threads=1,
        steps=declared.settings.steps,
        out=declared.settings.out,
    )


def run(settings: Settings, *, stream: TextIO | None = None) -> Finding:
    """Plan, compute what is missing, and judge. Files: cells as they finish; `report` writes the rest.

    Raises:
        OverBudget: the plan does not fit. RunFailed: not one cell finished.
    """
    notes = stream or sys.stderr
    print("preparing the texts …", file=notes, flush=True)
    declared = declare(settings)
    store = CellStore(settings.out / "cells")
    plan = _unmeasured(declared, store)
    results = cached(declared.cells, store)
    ran = Ran()
    if plan.pending:
        with LocalPool(workers=plan.workers, threads=plan.threads) as pool:
            print("measuring a few steps of every arm …", file=notes, flush=True)
            plan = replace(plan, measured=measure(plan.pending, pool, notes, workers=plan.workers))
            print(f"\n{render(plan)}\n", file=notes, flush=True)
            plan.check(time_limit=settings.time_limit)
            ran = compute(plan, store, pool, notes, finished=partial(_said, declared))
    else:
        print(summary(plan), file=notes, flush=True)
    results |= ran.results
    if not results:
        cell, cause = ran.failures[0]
        raise RunFailed(f"every cell failed, the first with: {cause}", where=cell.name)
    outcomes = tuple(
        analyse(study, by_arm(study, declared.cells, results), declared.truth_of(study)) for study in declared.studies
    )
    failures = tuple((cell.name, cause) for cell, cause in ran.failures)
    return Finding(outcomes=outcomes, plan=plan, declared=declared, failures=failures)


def _said(declared: Quickstart, cell: Cell, result: CellResult) -> str:
    study = next(study for study in declared.studies if study.name == cell.study)
    outcome = analyse(replace(study, claims=()), {(cell.arm, study.seeds[0]): result}, declared.truth_of(study))
    return f"{study.metric.name} {study.metric.shown(outcome.figures[0].mean)}, {result.facts['seconds']:.0f} s"
