"""Cheap jobs for workers, and a study made of them; also a program that runs it, to be killed."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from variorum.errors import RunFailed
from variorum.study.cells import Cell, CellResult, CellStore
from variorum.study.corpora import chapters
from variorum.study.design import Arm, Metric, Study
from variorum.study.executor import LocalPool, Report
from variorum.study.plan import Measured, Plan
from variorum.study.run import cached, compute
from variorum.study.statistics import Claim

HERE = "tests.study.fakes"


def doubled(*, report: Report, value: int, pause: float = 0.0) -> int:
    """Twice the value, after reporting two units."""
    report(1)
    time.sleep(pause)
    report(2)
    return 2 * value


def refused(*, report: Report) -> int:
    raise RunFailed("the loss is not finite", where="step 7")


def broken(*, report: Report) -> int:
    raise ZeroDivisionError("a bug\nwith details")


def killed(*, report: Report) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def threads(*, report: Report) -> tuple[int, str]:
    import torch

    return torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]


def process(*, report: Report) -> int:
    return os.getpid()


def cell_work(
    *, report: Report, arm: int, seed: int, pause: float, fail: str = "", once: Path | None = None, steps: int = 4
) -> CellResult:
    """Item scores that are a pure function of arm and seed; ``once`` is where a cell notes that it has failed."""
    for step in range(steps):
        time.sleep(pause / 4)
        report(step + 1)
    if fail == "raise":
        raise RunFailed("the loss is not finite", where="step 3")
    if fail == "once" and once is not None and not once.exists():
        once.touch()
        raise RunFailed("the node went away")
    if fail == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    items = tuple(3.0 - 0.5 * arm + 0.01 * seed + 0.02 * ((7 * item + 3 * seed + arm) % 5) for item in range(12))
    mean = sum(items) / len(items)
    facts: dict[str, Any] = {
        "seconds": 1.0, "train_seconds": 0.8, "rest_seconds": 0.2, "step_seconds": [0.2] * 4, "parameters": 1000 + arm,
        "peak_bytes": 10**8, "threads": 1, "torch": "2", "cpu": "plain", "python": "3",
    }  # fmt: skip
    curve = ((2, mean + 0.5 - 0.1 * arm), (4, mean))
    return CellResult(items=items, curve=curve, losses=(4.0, 3.5, 3.2, 3.0), facts=facts)


def texts(folder: Path, documents: int = 40) -> Path:
    """A folder of so many short documents, each a piece of another chapter."""
    folder.mkdir()
    for i, chapter in enumerate(chapters()[:documents]):
        (folder / f"{i:02}.txt").write_text(chapter.text[:1500], "utf-8")
    return folder


def study(*, seeds: int = 3, looks: tuple[int, ...] = (3,), arms: int = 3) -> Study:
    """Arms 0, 1, … each half a bit better than the one before."""
    named = tuple(Arm(name=f"arm{i}", title="the first" if i == 0 else f"+ change {i}", spec=None) for i in range(arms))
    return Study(
        name="fake",
        title="A made-up study",
        question="Does each change help?",
        arms=named,
        claims=tuple(
            Claim(name=f"change {i} lowers the loss", better=f"arm{i}", worse=f"arm{i - 1}", metric="loss")
            for i in range(1, arms)
        ),
        metric=Metric(name="loss", unit="bits per byte", lower_is_better=True, by_item=True),
        seeds=tuple(range(seeds)),
        looks=looks,
        items="12 items",
        budget="4 steps",
    )


def cells(
    made: Study, *, pause: float = 0.0, fail: dict[tuple[int, int], str] | None = None, once: Path | None = None
) -> tuple[Cell, ...]:
    return tuple(
        Cell(
            study=made.name,
            arm=arm.name,
            seed=seed,
            call=f"{HERE}:cell_work",
            work={"arm": i, "seed": seed, "pause": pause, "fail": (fail or {}).get((i, seed), ""), "once": once},
            data="0" * 64,
            steps=4,
            threads=1,
        )
        for seed in made.seeds
        for i, arm in enumerate(made.arms)
    )


def plan(made: Study, todo: tuple[Cell, ...], out: Path, store: CellStore, *, workers: int = 2) -> Plan:
    measured = Measured(step_seconds=(0.1, 0.1, 0.2), fixed_seconds=0.5, peak_bytes=10**8, parameters=1000)
    return Plan(
        studies=(made,),
        cells=todo,
        cached=frozenset(cached(todo, store)),
        measured={(made.name, arm.name): measured for arm in made.arms},
        workers=workers,
        threads=1,
        steps=4,
        out=out,
    )


def main(out: Path) -> None:
    """Run the made-up study in ``out``; how many cells it had to compute goes to stdout."""
    made, store = study(), CellStore(out / "cells")
    todo = cells(made, pause=0.4)
    planned = plan(made, todo, out, store)
    print(len(planned.pending), flush=True)
    with LocalPool(workers=2, threads=1) as pool:
        compute(planned.pending, planned, store, pool, sys.stderr, finished=lambda cell, result: "done")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
