"""A study carried through: what failed is told, what is done is kept, a kill loses nothing that was finished."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.study import fakes
from variorum.cli import study
from variorum.errors import OverBudget
from variorum.study import session
from variorum.study.analysis import analyse
from variorum.study.cells import Cell, CellStore
from variorum.study.design import Study
from variorum.study.executor import LocalPool
from variorum.study.plan import Plan, as_json, render
from variorum.study.run import by_arm, cached, compute, failure_log
from variorum.study.session import Declared, Limits, Page

ROOT = Path(__file__).parents[2]


def test_failed_cells_are_told_and_the_study_goes_on_with_the_seeds_that_are_left(tmp_path: Path):
    made, store, notes = fakes.study(), CellStore(tmp_path / "cells"), io.StringIO()
    todo = fakes.cells(made, fail={(1, 0): "raise", (2, 2): "kill"})
    with LocalPool(workers=2, threads=1) as pool:
        ran = compute(todo, fakes.plan(made, todo, tmp_path, store), store, pool, notes, finished=_ok)
    causes = {cell.name: cause for cell, cause in ran.failures}
    assert causes["fake/arm1 seed 0"] == "step 3: the loss is not finite"
    assert "SIGKILL" in causes["fake/arm2 seed 2"]
    assert "FAILED" in notes.getvalue()
    failed = next(cell for cell, _ in ran.failures if cell.arm == "arm1")
    assert "RunFailed" in failure_log(tmp_path, failed).read_text()

    outcome = analyse(made, by_arm(made, todo, ran.results), None)
    assert len(outcome.missing) == 2
    (first,) = outcome.judgements
    assert (first.verdict, first.seeds) == ("exploratory", 2)  # arm1 lacks seed 0
    assert [claim.name for claim in outcome.unjudged] == ["change 2 lowers the loss"]  # one common seed is too few


def test_finished_cells_are_not_computed_again(tmp_path: Path):
    made, store = fakes.study(), CellStore(tmp_path / "cells")
    todo = fakes.cells(made)
    with LocalPool(workers=2, threads=1) as pool:
        compute(todo, fakes.plan(made, todo, tmp_path, store), store, pool, io.StringIO(), finished=_ok)
        again = fakes.plan(made, todo, tmp_path, store)
        assert again.pending == ()
        store.path(todo[0]).unlink()
        assert [cell.name for cell in fakes.plan(made, todo, tmp_path, store).pending] == [todo[0].name]


def _declared(out: Path, made: Study, todo: tuple[Cell, ...], **limits: float) -> Declared:
    page = Page(title="", lead="", colophon="")
    return Declared(out=out, studies=(made,), cells=todo, page=page, steps=4, limits=Limits(workers=1, **limits))


def test_an_arm_that_fails_in_its_first_steps_is_told_in_the_plan_and_what_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    made = fakes.study(arms=2)
    todo = fakes.cells(made, fail={(1, 0): "raise"})
    planned = session.plan_only(_declared(tmp_path, made, todo), stream=io.StringIO())
    assert list(planned.measured) == [("fake", "arm0")] and planned.measured["fake", "arm0"].pace == 0.2
    assert planned.failed == {("fake", "arm1"): "step 3: the loss is not finite"}
    assert "FAILED: step 3: the loss is not finite" in render(planned)
    [_, arm] = as_json(planned)["studies"][0]["arms"]
    assert arm["failed"] == "step 3: the loss is not finite"

    def foretold(plan: Plan, **limits: float) -> int:
        monkeypatch.setattr(session, "plan_only", lambda declared: plan)
        return study._foretold(_declared(tmp_path, made, todo, **limits))

    assert foretold(planned) == 1 and foretold(replace(planned, failed={})) == 0
    assert capsys.readouterr().out.count("A made-up study") == 2
    for plan, limits, said in (
        (planned, {"time": 1e-3}, "takes up to"),
        (replace(planned, available=10**6), {}, "of memory"),
        (replace(planned, out=Path("/proc")), {}, "of disk"),
    ):
        with pytest.raises(OverBudget, match=said):
            foretold(plan, **limits)
        assert "A made-up study" in capsys.readouterr().out  # it is printed all the same


def test_the_next_run_tries_the_failed_cell_alone(tmp_path: Path):
    made = fakes.study(arms=2)
    todo = fakes.cells(made, once=tmp_path / "mended", fail={(1, 1): "once"})
    declared = _declared(tmp_path, made, todo)
    first = session.run(declared, stream=io.StringIO())
    assert [name for name, _ in first.failures] == ["fake/arm1 seed 1"] and first.outcomes[0].missing
    notes = io.StringIO()
    second = session.run(declared, stream=notes)
    assert [cell.name for cell in second.plan.pending] == ["fake/arm1 seed 1"] and not second.failures
    assert second.outcomes[0].judgements[0].seeds == 3 and not second.outcomes[0].missing


def _ok(cell: object, result: object) -> str:
    return "ok"


def _start(out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.study.fakes", str(out)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def _kill_and_resume(out: Path, kills: int, rng: random.Random) -> list[int]:
    """Kill the study ``kills`` times at random, then let it finish; how many cells each start had to compute."""
    pending = []
    for _ in range(kills):
        process = _start(out)
        assert process.stdout is not None
        pending.append(int(process.stdout.readline()))
        deadline = time.monotonic() + 60
        target = len(list(out.glob("cells/*.json"))) + rng.choice((0, 1, 2))
        while len(list(out.glob("cells/*.json"))) < target and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.3)
        workers = _children(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        _all_end(workers)
    process = _start(out)
    assert process.stdout is not None
    pending.append(int(process.stdout.readline()))
    assert process.wait(120) == 0
    return pending


def _all_end(workers: list[int]) -> None:
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline, "a worker outlived its killed parent"
        time.sleep(0.05)


def _check_kills(tmp_path: Path, kills: int, seed: int) -> None:
    made = fakes.study()
    todo = fakes.cells(made, pause=0.4)
    pending = _kill_and_resume(tmp_path, kills, random.Random(seed))
    assert pending == sorted(pending, reverse=True)  # what was finished stays finished
    store = CellStore(tmp_path / "cells")
    results = cached(todo, store)
    assert len(results) == len(todo)
    for cell in todo:  # and equals what an uninterrupted run computes
        assert results[cell.key].items == fakes.cell_work(report=lambda done: None, **{**cell.work, "pause": 0.0}).items
    assert not [path for path in (tmp_path / "cells").iterdir() if path.suffix != ".json"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for orphans in /proc")
def test_a_study_killed_twice_and_started_again_has_every_result_and_no_orphans(tmp_path: Path):
    _check_kills(tmp_path, kills=2, seed=1)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(12))
def test_a_study_killed_again_and_again_has_every_result(tmp_path: Path, seed: int):
    _check_kills(tmp_path, kills=3, seed=seed)
