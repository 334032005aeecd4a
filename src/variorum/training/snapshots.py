"""Snapshots of a run on disk: whole or absent, verified before anything older goes, and found again by what verifies.

``checkpoints/step-00000120`` holds every tensor of the state, its plain facts and a manifest of SHA-256. It is written
beside its place as ``.step-00000120.tmp-<pid>``, every file synced, the manifest last, then renamed, and the folder
synced. A snapshot that is not whole is never used, and never without saying so.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from variorum.checkpoint import manifest
from variorum.checkpoint.files import TensorFiles
from variorum.checkpoint.writing import write_directory
from variorum.errors import DamagedFile, NotFound, OverBudget, VariorumError
from variorum.training.state import State
from variorum.training.wishes import OnFull
from variorum.training.world import ALONE, World

PREFIX, FACTS = "step-", "state.json"
WAIT = 2.0
"""Seconds between two looks at a full disk."""
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A verified snapshot: the state of a run, and what the run wanted to remember beside it."""

    path: Path
    state: State
    facts: dict[str, Any]


@dataclass(frozen=True)
class Snapshots:
    """The snapshots in a folder.

    Attributes:
        keep: how many stay; two at least, so that one is left if the newest is found damaged.
        on_full: what a full disk means: an error, or waiting until there is room.
        say: where notes go.
        world: the processes whose state a snapshot is; all of them make each call.
    """

    folder: Path
    keep: int = 2
    on_full: OnFull = "stop"
    say: Say = print
    world: World = ALONE

    def at(self, step: int) -> Path:
        """Where the snapshot of a step is."""
        return self.folder / f"{PREFIX}{step:08}"

    def save(self, state: State, facts: dict[str, Any]) -> Path:
        """Write a snapshot, verify it as it lies on the disk, and only then drop the oldest.

        Raises:
            OverBudget: the disk is full; every earlier snapshot is as it was. AccessError: it may not be written.
            DamagedFile: the disk does not give back what was written; nothing was dropped.
        """
        path = self.at(state.step)
        document = {"step": state.step, "numbers": dict(state.numbers), "facts": facts, "processes": self.world.size}
        others = {FACTS: json.dumps(document, indent=1).encode() + b"\n"}
        self.world.first(lambda: self._make_way(path))
        patiently(lambda: self._write(path, state, others), self.on_full, self.say)
        self.world.first(lambda: self._settle(path))
        return path

    def _write(self, path: Path, state: State, others: dict[str, bytes]) -> None:
        if self.world.size == 1:
            write_directory(path, state.tensors, others)
            return
        from variorum.training import sharded

        sharded.write(path, state, others, self.world)

    def _make_way(self, path: Path) -> None:
        """Move a damaged snapshot of this step away, which the new one replaces."""
        if path.exists():
            try:
                whole = manifest.verify(path)
            except VariorumError:
                whole = False
            if not whole:
                _drop(path)

    def _settle(self, path: Path) -> None:
        """See that the new one is whole; only then may older ones go."""
        manifest.verify(path)
        self._prune(path)

    def _prune(self, whole: Path) -> None:
        """Drop what is beyond ``keep``, counted from one that is whole, and what killed writers left."""
        for old in [path for path in self._all() if path.name <= whole.name][max(2, self.keep) :]:
            _drop(old)
        for leftover in (*self.folder.glob(f".{PREFIX}*.dropped"), *self.folder.glob(f".{PREFIX}*.tmp-*")):
            shutil.rmtree(leftover, ignore_errors=True)

    def _all(self) -> list[Path]:
        """Every snapshot by its name, the newest first."""
        return sorted(self.folder.glob(f"{PREFIX}*"), reverse=True) if self.folder.is_dir() else []

    def newest(self, like: State) -> Snapshot | None:
        """The newest snapshot that verifies, laid out as ``like``; those passed over are named aloud."""
        name = self.world.first(self._newest)
        return None if name is None else read(self.folder / name, like, self.world)

    def _newest(self) -> str | None:
        for path in self._all():
            try:
                check(path)
            except VariorumError as error:
                self.say(f"skipped {path.name}, which is not whole: {error}")
            else:
                self._prune(path)  # who saved it may have been killed before that
                return path.name
        return None

    def named(self, name: str, like: State) -> Snapshot:
        """The snapshot that a user asks for, laid out as ``like``.

        Raises:
            NotFound: there is none of this name. DamagedFile: it is not whole.
        """
        self.world.first(lambda: self._check_named(name))
        return read(self.folder / name, like, self.world)

    def _check_named(self, name: str) -> None:
        path = self.folder / name
        if not path.is_dir():
            known = ", ".join(p.name for p in self._all()) or "there are none"
            raise NotFound("no such checkpoint", where=str(path), remedy=known)
        check(path)


def _drop(path: Path) -> None:
    """Put a snapshot out of sight before it goes, so that a kill leaves no half of one in its place."""
    aside = path.with_name(f".{path.name}.dropped")
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(OSError):
        path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def check(path: Path) -> None:
    """See that a snapshot is whole, every byte of it.

    Raises:
        DamagedFile: it is not.
    """
    if not manifest.verify(path):
        raise DamagedFile(f"has no {manifest.NAME}: it was never finished", where=str(path))


def read(path: Path, like: State, world: World = ALONE) -> Snapshot:
    """Read a snapshot that is whole, whatever number of processes wrote it, laid out as ``like``."""
    document = json.loads((path / FACTS).read_bytes())
    if world.size == document["processes"] == 1:
        with TensorFiles(path) as files:
            tensors = {name: files.get(name) for name in files.shapes}
    else:
        from variorum.training import sharded

        tensors = sharded.read(path, like, world)
    state = State(step=document["step"], tensors=tensors, numbers=document["numbers"])
    return Snapshot(path=path, state=state, facts=document["facts"])


def patiently(work: Callable[[], object], on_full: OnFull, say: Say) -> None:
    """Do ``work``, again and again where the disk is full and ``on_full`` is to pause.

    Raises:
        OverBudget: the disk is full and nobody waits.
    """
    told = ""
    while True:
        try:
            work()
        except OverBudget as error:
            if on_full == "stop":
                raise
            if not told:
                told = f"paused, for the disk is full: {error}"
                say(told)
            time.sleep(WAIT)
        else:
            if told:
                say("there is room again: the run goes on")
            return
