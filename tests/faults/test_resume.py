"""A run that is killed, cut off or full of disk ends in the bits of one that went straight through."""

from __future__ import annotations

import json
import os
import resource as limits
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults import runs
from tests.faults.resume import Trial, at_second_save, ended, forked
from variorum.checkpoint import manifest
from variorum.errors import DamagedFile, NotFound, OverBudget, UsageError
from variorum.training import snapshots
from variorum.training.pretrain import resume
from variorum.training.run import Keeping
from variorum.training.rundir import CHECKPOINTS

DROPOUT = runs.CASES[0]
LAST = f"step-{runs.STEPS:08}"


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return Trial(DROPOUT, tmp_path_factory.mktemp("runs"))


@pytest.fixture
def run(trial: Trial, tmp_path: Path) -> Path:
    """A run that has not begun."""
    return runs.copied(trial.start, tmp_path / "run")


def steps_of(run: Path) -> list[str]:
    return sorted(path.name for path in (run / CHECKPOINTS).iterdir())


@pytest.mark.mechanism("R7")
@pytest.mark.case("V064")
@pytest.mark.parametrize("case", runs.CASES, ids=lambda case: case.name)
def test_killed_in_the_middle_of_a_write_a_run_ends_in_the_same_bits(case: runs.Case, tmp_path: Path) -> None:
    row = Trial(case, tmp_path / "runs").writes()
    assert row.same == row.runs == row.kills > 3


@pytest.mark.case("V064")
def test_killed_at_random_moments_a_run_ends_in_the_same_bits(trial: Trial) -> None:
    row = trial.at_random(4)
    assert row.same == row.runs == 4


@pytest.mark.case("V067")
def test_killed_before_or_after_a_call_of_a_save_a_run_ends_in_the_same_bits(trial: Trial) -> None:
    row = trial.moments(4)  # each of them is a nightly test
    assert row.same == row.runs == row.kills > 25


@pytest.mark.case("V067")
def test_killed_while_it_writes_its_card_a_run_ends_in_the_same_bits_and_leaves_nothing_behind(trial: Trial) -> None:
    row = trial.card(3)
    assert not row.lost
    assert row.same == row.runs == row.kills > 5


@pytest.mark.nightly
@pytest.mark.case("V064", "V067")
@pytest.mark.parametrize("case", runs.CASES, ids=lambda case: case.name)
def test_fifty_random_kills_and_every_moment_of_a_save_leave_no_trace(case: runs.Case, tmp_path: Path) -> None:
    whole = Trial(case, tmp_path / "runs")
    for row in (whole.moments(), whole.card(), whole.at_random(50, seed=1)):
        assert row.same == row.runs


@pytest.mark.case("V064")
def test_the_log_holds_each_step_once_after_a_restart(trial: Trial, run: Path) -> None:
    def work() -> None:
        with at_second_save(lambda: os._exit(9)):
            runs.finish(run)

    assert ended(forked(work)) == 9
    assert steps_of(run) == ["step-00000003"]
    runs.finish(run)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "loss" in row] == list(range(1, runs.STEPS + 1))
    assert runs.digest(run) == trial.right


@pytest.mark.case("V067")
def test_a_damaged_newest_snapshot_is_passed_over_aloud_and_named_it_is_an_error(trial: Trial, run: Path) -> None:
    runs.finish(run)
    newest = run / CHECKPOINTS / LAST / "model.safetensors"
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    said: list[str] = []
    with pytest.raises(DamagedFile, match="not as it was saved"):
        resume(run, checkpoint=LAST, say=said.append)
    with pytest.raises(NotFound, match="no such checkpoint"):
        resume(run, checkpoint="step-00000004", say=said.append)
    assert said == []
    runs.finish(run, say=said.append)
    assert said[0].startswith(f"skipped {LAST}, which is not whole")
    assert said[1] == "going on from step 6"
    assert runs.digest(run) == trial.right


@pytest.mark.case("V067")
def test_two_snapshots_stay_and_none_goes_before_the_new_one_verifies(run: Path, monkeypatch) -> None:
    kept: list[list[str]] = []
    real = manifest.verify

    def verify(place: Path) -> bool:
        if place.parent.name == CHECKPOINTS:
            kept.append(steps_of(run))
        return real(place)

    monkeypatch.setattr(snapshots.manifest, "verify", verify)
    runs.finish(run)
    assert kept[-1] == [f"step-0000000{step}" for step in (3, 6, 9)]
    assert steps_of(run) == ["step-00000006", LAST]


@pytest.mark.case("V067")
def test_killed_while_the_last_save_drops_an_old_snapshot_a_run_leaves_nothing_behind(trial: Trial, run: Path) -> None:
    runs.finish(run)
    shutil.copytree(run / CHECKPOINTS / LAST, run / CHECKPOINTS / "step-00000003")
    shutil.copytree(run / CHECKPOINTS / LAST, run / CHECKPOINTS / ".step-00000003.dropped")
    runs.finish(run)
    assert runs.digest(run) == trial.right and not runs.left_over(run)


def test_a_run_that_is_over_stays_as_it_is(trial: Trial, run: Path) -> None:
    runs.finish(run)
    before = runs.digest(run)
    runs.finish(run)
    assert runs.digest(run) == before == trial.right


def test_one_process_at_a_time_works_in_a_run(run: Path) -> None:
    with snapshots_locked(run), pytest.raises(UsageError, match="another process is at work"):
        runs.finish(run)


def snapshots_locked(run: Path):
    from variorum.training.rundir import locked

    return locked(run)


def test_other_threads_than_then_are_said_and_not_hidden(run: Path) -> None:
    document = json.loads((run / "run.json").read_text())
    document["machine"]["torch"] = "2.0"
    (run / "run.json").write_text(json.dumps(document))
    said: list[str] = []
    runs.finish(run, say=said.append)
    assert "torch 2.0 then" in said[0] and "not to the last bit" in said[0]


@pytest.mark.case("V067")
def test_at_every_size_where_the_disk_may_end_the_last_snapshot_is_whole_and_the_run_goes_on(
    trial: Trial, tmp_path: Path
) -> None:
    size = (trial.whole / CHECKPOINTS / LAST / "model.safetensors").stat().st_size
    for number, share in enumerate([0.0, 0.001, *(i / 18 for i in range(1, 18)), 0.9999]):
        run = runs.copied(trial.start, tmp_path / str(number))

        def work(run: Path = run, limit: int = int(share * size)) -> None:
            def full() -> None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                limits.setrlimit(limits.RLIMIT_FSIZE, (limit, limit))

            try:
                with at_second_save(full):
                    runs.finish(run)
            except OverBudget as error:
                os._exit(5 if "bytes needed" in str(error) else 6)

        assert ended(forked(work)) == 5
        assert steps_of(run) == ["step-00000003"], "no half of a snapshot, and no temporary folder"
        assert manifest.verify(run / CHECKPOINTS / "step-00000003")
        if number % 6 == 0:
            runs.finish(run)
            assert runs.digest(run) == trial.right


def test_a_paused_run_goes_on_when_there_is_room(trial: Trial, run: Path, monkeypatch) -> None:
    real, asked, said = snapshots.write_directory, [], []
    monkeypatch.setattr(snapshots, "WAIT", 0.01)

    def write(path: Path, tensors, others) -> None:
        asked.append(path.name)
        if 2 <= len(asked) <= 4:
            raise OverBudget("cannot save: 9 bytes needed, 3 free", where=str(path))
        real(path, tensors, others)

    monkeypatch.setattr(snapshots, "write_directory", write)
    runs.finish(run, Keeping(on_disk_full="pause"), said.append)
    assert [line.split(":")[0] for line in said] == ["paused, for the disk is full", "there is room again"]
    assert "9 bytes needed, 3 free" in said[0]
    assert runs.digest(run) == trial.right


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 3 MiB."""
    place = Path(tempfile.mkdtemp(prefix="variorum-disk-"))
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], capture_output=True)
    if made.returncode:
        place.rmdir()
        pytest.skip("only the superuser can mount a small disk; limits on file sizes stand in for it above")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)
    place.rmdir()


def test_on_a_disk_that_others_fill_a_paused_run_waits_for_the_room(trial: Trial, small_disk: Path) -> None:
    run = small_disk / "run"
    shutil.copytree(trial.start, run)
    ballast = small_disk / "ballast"

    def fill() -> None:
        free = shutil.disk_usage(small_disk).free
        ballast.write_bytes(b"0" * max(0, free - 50_000))

    def work() -> None:
        snapshots.WAIT = 0.05
        with at_second_save(fill):
            runs.finish(run, Keeping(on_disk_full="pause"))

    child = forked(work)
    waited_for(lambda: ballast.exists() and ballast.stat().st_size > 0)
    time.sleep(0.5)
    assert os.waitpid(child, os.WNOHANG) == (0, 0), "it waits"
    assert manifest.verify(run / CHECKPOINTS / "step-00000003")
    ballast.unlink()
    assert ended(child) == 0
    assert runs.digest(run) == trial.right


def waited_for(true: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_an_interrupt_leaves_a_snapshot_and_the_rest_is_the_same(trial: Trial, run: Path) -> None:
    def work() -> None:
        real = snapshots.Snapshots.save

        def save(self, state, facts):
            found = real(self, state, facts)
            if state.step == runs.SAVES:
                os.kill(os.getpid(), signal.SIGTERM)
            return found

        snapshots.Snapshots.save = save  # type: ignore[method-assign]
        try:
            runs.finish(run)
        except SystemExit as error:
            os._exit(int(str(error.code)))

    assert ended(forked(work)) == 143
    assert steps_of(run) == ["step-00000003"] or steps_of(run) == ["step-00000003", "step-00000004"]
    runs.finish(run)
    assert {name: value for name, value in runs.digest(run).items() if LAST in name or CHECKPOINTS not in name} == {
        name: value for name, value in trial.right.items() if LAST in name or CHECKPOINTS not in name
    }
