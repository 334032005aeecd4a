"""What a run writes beside its log: each number reaches the viewer that was asked for once, or a line says why not."""

from __future__ import annotations

import importlib.machinery
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from tests.faults import runs
from variorum.cli import main
from variorum.training.records import METRICS, Log, check_viewer
from variorum.training.wishes import Keeping

VIEWERS = ("tensorboard", "trackio")


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    return runs.prepared(runs.CASES[0], tmp_path / "run")


def logged(run: Path) -> dict[tuple[int, str], float]:
    """Every number of the log, by its step and its name."""
    rows = Log(run / METRICS).rows()
    return {(row["step"], name): value for row in rows for name, value in row.items() if name != "step"}


class Seen(types.ModuleType):
    """A viewer's package that remembers what it is told, in the words of trackio's own interface."""

    def __init__(self) -> None:
        super().__init__("trackio")
        self.__spec__ = importlib.machinery.ModuleSpec("trackio", None)
        self.begun: list[dict[str, Any]] = []
        self.told: dict[tuple[int, str], float] = {}
        self.finished = 0

    def init(self, **named: Any) -> Seen:
        self.begun.append(named)
        return self

    def log(self, numbers: dict[str, float], *, step: int) -> None:
        self.told |= {(step, name): value for name, value in numbers.items()}

    def finish(self) -> None:
        self.finished += 1


def test_trackio_is_told_every_number_of_the_log(prepared: Path, monkeypatch) -> None:
    package = Seen()
    monkeypatch.setitem(sys.modules, "trackio", package)
    runs.finish(prepared, Keeping(track="trackio"))
    assert package.told == logged(prepared)
    assert package.begun == [{"project": "variorum", "name": "run", "resume": "allow"}]
    assert package.finished == 1


def test_tensorboard_shows_every_number_of_the_log_once_also_after_a_kill(prepared: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    from tests.faults.resume import at_second_save, ended, forked

    def killed() -> None:
        import os

        with at_second_save(lambda: os._exit(9)):
            runs.finish(prepared, Keeping(track="tensorboard"))

    assert ended(forked(killed)) == 9
    time.sleep(1.1)  # TensorBoard reads files by the second in which they were begun
    runs.finish(prepared, Keeping(track="tensorboard"))
    shown = events.EventAccumulator(str(prepared / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    told = [((event.step, name), event.value) for name in shown.Tags()["scalars"] for event in shown.Scalars(name)]
    assert len(told) == len(dict(told))
    right = logged(prepared)
    assert dict(told) == {key: pytest.approx(value, rel=1e-6) for key, value in right.items()}


@pytest.mark.parametrize("viewer", VIEWERS)
def test_a_viewer_that_is_not_installed_is_one_line_with_the_remedy_before_anything_is_read(
    viewer, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr("variorum.training.records.find_spec", lambda name: None)
    out = tmp_path / "run"
    assert main(["pretrain", "gpt2", "austen", "--out", str(out), "--budget", "1steps", "--track", viewer]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"the package {viewer} is not installed; pip install" in line
    assert not out.exists()
    assert main(["resume", str(out), "--track", viewer]) == 2
    check_viewer(None)
