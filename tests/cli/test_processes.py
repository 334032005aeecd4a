"""``torchrun -m variorum pretrain``: the same command line in several processes, lost, stopped and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import variorum
from tests.faults import runs
from variorum.cli import main
from variorum.training import pretrain as job

STEPS, SAVES = 80, 10
SAME = 1e-4  # in float32, through as many steps
SIZES = ("--scale", "nano", "--length", "16", "--vocab", "300", "--threads", "1")
KEPT = ("--save-every", str(SAVES), "--eval-every", "40")


def launched(processes: int, *words: str) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [*launcher, "-m", "variorum", *words]


@contextmanager
def started(processes: int, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The command in several processes, none of which outlives the block."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(launched(processes, *words), stdout=pipe, stderr=pipe, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def finished(processes: int, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(launched(processes, *words), capture_output=True, text=True, timeout=120)


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None, process.communicate()[1][-3000:]
        assert time.monotonic() < until
        time.sleep(0.02)


def workers(process: subprocess.Popen[str]) -> list[int]:
    """The processes that a launcher has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(child) for child in children.split()]


def ours(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("variorum: ")]


def losses(run: Path) -> list[float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found = {row["step"]: row["loss"] for row in rows if "loss" in row}
    assert list(found) == list(range(1, STEPS + 1))
    return list(found.values())


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text(runs.text(60))
    return path


def asked(texts: Path, out: Path, batch: int = 8) -> Sequence[str]:
    words = ("pretrain", "llama", str(texts), "--out", str(out), "--budget", f"{STEPS}steps")
    return (*words, "--batch", str(batch), *SIZES, *KEPT)


def test_a_run_of_two_processes_loses_one_is_stopped_and_is_ended_by_one_and_by_four_others(
    texts, tmp_path, monkeypatch
) -> None:
    out, alone = tmp_path / "run", tmp_path / "alone"
    command = (*asked(texts, out), "--strategy", "fsdp")
    with started(2, *command) as process:
        wait_for(out / "checkpoints" / f"step-{SAVES:08}", process)
        os.kill(workers(process)[1], signal.SIGKILL)
        said = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    assert len(ours(said)) == 1 and "another process has ended" in ours(said)[0]
    with started(2, *command) as process:
        wait_for(out / "checkpoints" / f"step-{2 * SAVES:08}", process)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
    assert said.count("going on from step") == 1
    assert said.count(f"stopped; to go on: torchrun --nproc-per-node 2 -m variorum resume {out}") == 1
    with monkeypatch.context() as patch:
        asks, real = iter([0] * SAVES), job.go_on
        patch.setattr(job, "go_on", lambda *given, **more: real(*given, **{**more, "stopped": lambda: next(asks, 1)}))
        assert main(["resume", str(out)]) == 130
    ended = finished(4, "resume", str(out), "--strategy", "ddp", "--format", "json")
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert json.loads(ended.stdout)["ended"] == "finished"
    assert "processes 2 then, 4 now" in ended.stderr
    assert main(asked(texts, alone)) == 0
    assert losses(out) == pytest.approx(losses(alone), rel=SAME)
    both = [variorum.load(run / "model").state_dict() for run in (out, alone)]
    assert both[0].keys() == both[1].keys()
    assert max(float((both[0][key] - both[1][key]).abs().max()) for key in both[0]) < 1e-3


def test_a_mistake_in_several_processes_is_one_line(texts, tmp_path) -> None:
    done = finished(2, *asked(texts, tmp_path / "run", batch=1))
    assert done.returncode != 0 and done.stdout == ""
    assert ours(done.stderr) == [
        "variorum: 1 rows of a step cannot be shared by 2 processes; give a --batch of 2 or more"
    ]
