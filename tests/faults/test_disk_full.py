"""A disk that is full, or may not be written: one line with the bytes that matter, and everything as it was."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults import models
from tests.faults.children import Outcome, run
from variorum.checkpoint import load, manifest, save
from variorum.model import Model

NOBODY = 65_534


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that another user may enter: pytest's own are closed to them."""
    made = Path(tempfile.mkdtemp(prefix="variorum-faults-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return models.tiny(tmp_path_factory.mktemp("new"), seed=2)


def everything(place: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in place.rglob("*")}


def limited(limit: int, work: Callable[[], object]) -> Outcome:
    """``work`` where no file may become longer than ``limit``."""

    def case() -> object:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return work()

    return run(case)


def as_nobody(work: Callable[[], object]) -> object:
    """``work`` by someone who may not read or write everything, as the superuser may; never undone."""
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    return work()


def test_at_every_size_where_the_disk_may_end_the_old_save_stays_and_the_bytes_are_said(
    place: Path, new: Model
) -> None:
    target = models.own(place / "m", seed=1)
    before = everything(place)
    size = (target / "model.safetensors").stat().st_size
    limits = [0, 1, 7, 8, 9, 50, 100, *(size * i // 16 for i in range(1, 16)), size - 8, size - 1]
    for limit in limits:
        outcome = limited(limit, lambda: save(new, target))
        assert (outcome.kind, outcome.exit_code, outcome.is_one_line) == ("OverBudget", 5, True), (limit, outcome)
        assert "bytes needed" in outcome.line
        assert " free" in outcome.line
        assert everything(place) == before
    assert limited(size, lambda: save(new, target)).kind == "returned"
    assert manifest.verify(target)


def test_a_first_save_that_does_not_fit_leaves_nothing(place: Path, new: Model) -> None:
    for limit in (0, 100, 5_000):
        assert limited(limit, lambda: save(new, place / "m")).kind == "OverBudget"
        assert everything(place) == {}


def test_a_place_that_may_not_be_written_is_a_matter_of_access_and_stays_as_it_is(place: Path, new: Model) -> None:
    target = models.own(place / "m", seed=1)
    shutil.rmtree(place / "vocabulary")
    place.chmod(0o555)
    before = everything(place)

    outcome = run(lambda: as_nobody(lambda: save(new, target)))
    assert (outcome.kind, outcome.exit_code, outcome.is_one_line) == ("AccessError", 4, True), outcome
    assert "Permission denied" in outcome.line
    assert everything(place) == before
    place.chmod(0o755)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", manifest.NAME])
def test_a_file_that_may_not_be_read_is_a_matter_of_access(place: Path, name: str) -> None:
    target = models.own(place / "m")
    if name != manifest.NAME:
        (target / manifest.NAME).unlink()
    (target / name).chmod(0)
    outcome = run(lambda: as_nobody(lambda: load(target)))
    assert (outcome.kind, outcome.exit_code, outcome.is_one_line) == ("AccessError", 4, True), outcome
    assert str(target / name) in outcome.line
