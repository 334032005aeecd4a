"""The quickstart: what it declares, that its cells are fair and repeatable, and that its command behaves."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tools.command import refused, variorum
from variorum.builder import build
from variorum.errors import OverBudget, UsageError
from variorum.study import corpora, domain, jobs, nano, prepare, walk
from variorum.study.cells import CellStore
from variorum.study.plan import FASTER, SLOWER, Measured, Plan, render, until_all_end
from variorum.study.quickstart import Settings, declare
from variorum.study.session import Declared, Limits, declared_looks, unmeasured

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Declared:
    return declare(Settings(out=tmp_path_factory.mktemp("quickstart"), steps=6))


def test_the_novels_are_cut_into_their_chapters():
    chapters = corpora.chapters()
    assert len(chapters) == 269
    assert sum(chapter.held_out for chapter in chapters) == 34
    held = {chapter.name.rsplit(" ", 1)[0] for chapter in chapters if chapter.held_out}
    assert held == set(corpora.TITLES.values())
    first = next(c for c in chapters if c.name == "Pride and Prejudice 1")
    assert first.text.startswith("It is a truth universally acknowledged")


def test_no_document_and_no_text_is_on_both_sides_of_the_split():
    train, test, dropped = corpora.without_leaks(corpora.snippets())
    assert not {row.document for row in train} & {row.document for row in test}
    assert not {row.text.casefold() for row in train} & {row.text.casefold() for row in test}
    assert dropped > 0
    assert len(train) + len(test) + dropped == 23703


def test_all_snippets_of_a_document_are_in_one_jackknife_group():
    documents = [f"tweet/{i // 3}" for i in range(600)]
    groups = domain.groups(documents)
    assert len({(d, g) for d, g in zip(documents, groups, strict=True)}) == 200
    assert sorted(set(groups)) == list(range(max(groups) + 1))


def test_held_out_text_is_in_no_training_window(declared: Declared):
    from safetensors.numpy import load_file

    data = load_file(declared.cells[0].work["data"])
    train = {bytes(row.tobytes()) for row in data["train"]}
    assert not train & {bytes(row.tobytes()) for row in data["held_out"]}
    assert data["train"].shape[1] == walk.LENGTH + 1
    assert data["documents"].max() + 1 == 34


def test_windows_never_cross_a_chapter_and_targets_tile_it():
    windows = prepare._windows(list(range(100)), 9)
    assert [list(w) for w in windows[:2]] == [list(range(10)), list(range(9, 19))]
    assert all(len(w) == 10 for w in windows)
    targets = [t for w in windows for t in w[1:]]
    assert targets == list(range(1, 100))


@pytest.mark.mechanism("Z7", "Z8", "Z9")
def test_each_arm_of_the_walk_is_one_published_change_from_the_arm_before():
    arms = walk.arms()
    assert [arm.name for arm in arms] == ["gpt2", "rope", "rmsnorm", "swiglu", "gqa"]
    assert arms[0].apparatus == ()
    for before, after in itertools.pairwise(arms):
        assert before.spec is not None
        assert after.spec is not None
        assert len(after.spec.changes) == 1
        assert after.spec.ancestor == before.spec
        assert {reading.why for reading in after.apparatus} == {after.spec.changes[0].why}


def test_two_arms_share_the_draws_of_the_parameters_that_they_share():
    gpt2, rope = (build(arm.spec, seed=5, head="causal_lm") for arm in walk.arms()[:2])
    mine, theirs = dict(gpt2.named_tensors()), dict(rope.named_tensors())
    shared = mine.keys() & theirs.keys()
    assert mine.keys() - theirs.keys() == {"decoder.input.positions.table.weight"} or len(mine) - len(shared) == 1
    assert all(torch.equal(mine[name], theirs[name]) for name in shared)


def test_every_arm_of_a_study_is_trained_alike(declared: Declared):
    for study in declared.studies:
        works = [
            {k: v for k, v in cell.work.items() if k not in ("spec", "seed")}
            for cell in declared.cells
            if cell.study == study.name and "spec" in cell.work
        ]
        assert all(work == works[0] for work in works)


@pytest.mark.mechanism("O1", "R7", "Z20")
@pytest.mark.parametrize(("study", "arm"), [("walk", "gqa"), ("domain", "modernbert"), ("domain", "tfidf")])
def test_a_cell_computed_twice_is_the_same_to_the_bit(declared: Declared, study: str, arm: str):
    cell = next(c for c in declared.cells if (c.study, c.arm, c.seed) == (study, arm, 0))
    run = getattr(jobs, cell.call.partition(":")[2])
    done: list[int] = []
    first = run(report=done.append, **{**cell.work, "steps": 3})
    again = run(report=lambda step: None, **{**cell.work, "steps": 3})
    assert (first.items, first.losses, first.curve) == (again.items, again.losses, again.curve)
    assert done == ([1, 2, 3] if "spec" in cell.work else [1])


def test_the_plan_says_everything_before_anything_runs(declared: Declared):
    plan = _measured(declared)
    text = render(plan)
    for study in declared.studies:
        for line in (study.question, study.budget, study.items, *study.equal, *study.unequal):
            assert line in text
        assert all(claim.name in text for claim in study.claims)
    assert "α = 0.05 / (4 claims × 1 look) = 0.0125" in text
    assert "22 cells to compute" in text


def _measured(declared: Declared) -> Plan:
    some = Measured(step_seconds=(0.2, 0.1, 0.3), fixed_seconds=1.0, peak_bytes=2**29, parameters=1000)
    plan = unmeasured(declared, CellStore(declared.out / "cells"))
    return dataclasses.replace(plan, measured={(c.study, c.arm): some for c in declared.cells}, workers=2)


def test_a_plan_that_does_not_fit_is_refused_with_what_would(declared: Declared):
    plan = _measured(declared)
    roomy = dataclasses.replace(plan, available=2**31)
    roomy.check(time_limit=None, disk=2**31)
    with pytest.raises(OverBudget, match=r"1\.0 GiB of memory, 512 MiB is available.*--workers 1"):
        dataclasses.replace(plan, available=2**29).check(time_limit=None, disk=2**31)
    with pytest.raises(OverBudget, match=r"of disk, 1 MiB is free"):
        roomy.check(time_limit=None, disk=2**20)
    with pytest.raises(OverBudget, match=r"takes up to .*allow more with --time-limit") as caught:
        roomy.check(time_limit=5.0, disk=2**31)
    with pytest.raises(OverBudget, match=r"about --steps 30 would fit"):
        dataclasses.replace(roomy, steps=60).check(time_limit=plan.band[1] / 2, disk=2**31)
    assert caught.value.exit_code == 5


def test_the_time_band_lies_around_when_the_last_worker_ends(declared: Declared):
    plan = _measured(declared)
    low, high = plan.band
    even = sum(0.2 * cell.steps + 1 for cell in plan.pending) / 2
    assert low / FASTER == pytest.approx(high / SLOWER)
    assert even <= low / FASTER <= even + max(0.2 * cell.steps + 1 for cell in plan.pending)
    assert until_all_end([3, 2, 2, 1], workers=2) == 4 and until_all_end([5, 1, 1], workers=3) == 5
    assert high / low < 1.6


def test_the_looks_declared_first_hold(declared: Declared, tmp_path: Path):
    cells = declared.cells
    assert declared_looks(tmp_path, cells, (8,), keep=False) == (8,)  # a dry run declares nothing
    assert declared_looks(tmp_path, cells, (3,)) == (3,)
    assert declared_looks(tmp_path, cells, (5,)) == (3,)  # the same cells read again with more seeds
    other = tuple(dataclasses.replace(cell, data="0" * 64) for cell in cells)
    assert declared_looks(tmp_path, other, (5,)) == (5,)  # another study in the same folder


@pytest.mark.parametrize(
    ("kind", "bad"), [(Settings, {"seeds": 1}), (Settings, {"steps": 2}), (Limits, {"workers": 0})]
)
def test_settings_that_make_no_sense_are_refused(kind: type, bad: dict[str, int]):
    with pytest.raises(UsageError):
        kind(**bad)


def test_too_few_seeds_on_the_command_line_is_one_line_and_exit_2():
    assert "at least 2 seeds" in refused("study", "quickstart", "--seeds", "1", code=2)


def test_a_published_change_that_is_not_there_is_named():
    from variorum.errors import NotFound
    from variorum.family import find

    with pytest.raises(NotFound, match="llama has no change of its own"):
        nano.published_change(find("llama"), "architecture.width")


def _command(out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "variorum", "study", "quickstart", "--out", str(out), "--steps", "6", *more]


@pytest.mark.nightly
def test_the_whole_command_killed_halfway_and_run_again_equals_an_uninterrupted_run(tmp_path: Path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    done = variorum("study", "quickstart", "--out", str(whole), "--steps", "6", "--seeds", "2", timeout=900)
    assert done.returncode == 0, done.stderr
    assert "At this budget" in done.stdout
    assert str(whole / "report.html") in done.stdout

    process = subprocess.Popen(_command(broken, "--seeds", "2"), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 600
    while len(list(broken.glob("cells/*.json"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path.name: path.stat().st_mtime_ns for path in broken.glob("cells/*.json")}
    again = variorum("study", "quickstart", "--out", str(broken), "--steps", "6", "--seeds", "2", timeout=900)
    assert again.returncode == 0, again.stderr
    after = {path.name: path.stat().st_mtime_ns for path in broken.glob("cells/*.json")}
    assert all(after[name] == stamp for name, stamp in kept.items())
    assert _numbers(whole) == _numbers(broken)


def _numbers(out: Path) -> dict[str, Any]:
    """Everything of a result to the last bit, but the folder's name and what depends on the clock."""
    told: dict[str, Any] = json.loads((out / "result.json").read_text())
    del told["command"]
    for study in told["studies"]:
        for cell in study["cells"]:
            del cell["facts"]
    return told


@pytest.mark.nightly
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_prints_how_to_go_on(tmp_path: Path, sent: signal.Signals, code: int):
    process = subprocess.Popen(
        _command(tmp_path / "out"), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    )
    deadline = time.monotonic() + 600
    while not list((tmp_path / "out").glob("cells/*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert out == ""
    assert f"variorum study quickstart --out {tmp_path / 'out'} --seeds 3 --steps 6" in err
    assert "Traceback" not in err


@pytest.mark.nightly
def test_a_dry_run_prints_the_plan_and_computes_nothing(tmp_path: Path):
    done = variorum("study", "quickstart", "--out", str(tmp_path), "--steps", "6", "--dry-run", timeout=600)
    assert done.returncode == 0, done.stderr
    assert "cells to compute" in done.stdout
    assert not list(tmp_path.glob("cells/*.json"))
    limited = variorum(
        "study", "quickstart", "--out", str(tmp_path), "--steps", "6", "--time-limit", "0.01", timeout=600
    )
    assert limited.returncode == 5
    assert limited.stderr.splitlines()[-1].startswith("variorum: study plan: takes up to")
