"""A save that is killed at any moment leaves the directory as it was or as it was to be, and needs no cleaning up."""

from __future__ import annotations

import dataclasses
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
import torch

import variorum
from tests.faults import models
from variorum.checkpoint import save
from variorum.checkpoint.files import write_directory
from variorum.model import Model

# What changes a disk: calls of C functions by name, and the one of our own that calls the system itself.
CALLS = {"open", "write", "fsync", "rename", "mkdir", "unlink", "rmdir", "close", "flock", "rmtree"}
OWN_CALLS = {"_exchange"}
KILLED = 87


class Killer:
    """Counts the moments before and after each call that changes a disk; ends the process at one of them."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """A profile function, see :func:`sys.setprofile`."""
        if event in ("c_call", "c_return"):
            matters = getattr(argument, "__name__", "") in CALLS
        else:
            matters = event in ("call", "return") and frame.f_code.co_name in OWN_CALLS
        if matters:
            if self.count == self.at:
                os._exit(KILLED)
            self.count += 1


def killed_at(moment: int, work: Callable[[], object]) -> bool:
    """Do ``work`` in a child that ends at ``moment``; False if the work has fewer moments than that."""
    child = os.fork()
    if not child:
        killer = Killer(moment)
        sys.setprofile(killer)
        work()
        sys.setprofile(None)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED), code
    return code == KILLED


def content(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.iterdir()}


def left(place: Path) -> list[str]:
    return sorted(path.name for path in place.parent.iterdir() if path != place)


@dataclasses.dataclass(frozen=True)
class Saved:
    """A model and the files that a save of it consists of."""

    model: Model
    files: dict[str, bytes]


@pytest.fixture(scope="module")
def old_and_new(tmp_path_factory: pytest.TempPathFactory) -> tuple[Saved, Saved]:
    place = tmp_path_factory.mktemp("models")
    made = []
    for seed in (1, 2):
        model = models.tiny(place, seed)
        save(model, place / str(seed))
        assert torch.equal(next(variorum.load(place / str(seed)).parameters()), next(model.parameters()))
        made.append(Saved(model, content(place / str(seed))))
    return made[0], made[1]


def test_killed_before_or_after_any_call_the_old_save_or_the_new_one_is_there_whole(
    tmp_path: Path, old_and_new: tuple[Saved, Saved]
) -> None:
    old, new = old_and_new
    place = tmp_path / "m"
    save(old.model, place)
    moment, ends = 0, []
    while killed_at(moment, lambda: save(new.model, place)):
        found = content(place)
        ends.append(found == new.files)
        assert ends[-1] or found == old.files
        if ends[-1]:
            save(old.model, place)
            assert left(place) == [], "the next save removes what the killed one left"
        moment += 1
    assert moment > 50, "opening, writing, syncing and closing four files, and the renames"
    assert ends == sorted(ends), "old until one moment, new from then on"
    assert 0 < sum(ends) < moment
    assert content(place) == new.files
    assert left(place) == []


def test_a_first_save_in_shards_that_is_killed_is_absent_or_whole(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0), "b": torch.ones(2, 2), "c": torch.zeros(1)}

    def work(place: Path) -> None:
        write_directory(place, tensors, {"config.json": b"{}"}, max_shard_bytes=24)

    work(tmp_path / "right" / "m")
    right = content(tmp_path / "right" / "m")
    assert len(right) == 5
    moment = 0
    while True:
        place = tmp_path / str(moment) / "m"
        if not killed_at(moment, lambda place=place: work(place)):  # type: ignore[misc]
            break
        assert not place.exists() or content(place) == right
        work(place)
        assert content(place) == right
        assert left(place) == []
        moment += 1
    assert moment > 40


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.99])
def test_killed_in_the_middle_of_writing_the_weights_the_old_save_is_there(
    tmp_path: Path, old_and_new: tuple[Saved, Saved], share: float
) -> None:
    old, new = old_and_new
    place = tmp_path / "m"
    save(old.model, place)
    limit = int(share * len(old.files["model.safetensors"]))
    child = os.fork()
    if not child:
        # The system itself ends the process at the first byte beyond the limit, half a write done.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        save(new.model, place)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGXFSZ
    assert content(place) == old.files
    save(new.model, place)
    assert content(place) == new.files
    assert left(place) == []
