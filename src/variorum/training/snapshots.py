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
from typing import Any, Literal

from variorum.checkpoint import manifest
from variorum.checkpoint.files import TensorFiles
from variorum.checkpoint.writing import write_directory
from variorum.errors import DamagedFile, NotFound, OverBudget, VariorumError
from variorum.training.state import State

PREFIX, FACTS = "step-", "state.json"
WAIT = 2.0
"""Seconds between two looks at a full disk."""
OnFull = Literal["stop", "pause"]
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
    """

    folder: Path
    keep: int = 2
    on_full: OnFull = "stop"
    say: Say = print

    def save(self, state: State, facts: dict[str, Any]) -> Path:
        """Write a snapshot, verify it as it lies on the disk, and only then drop the oldest.

        Raises:
            OverBudget: the disk is full; every earlier snapshot is as it was. AccessError: it may not be written.
            DamagedFile: the disk does not give back what was written; nothing was dropped.
        """
        path = self.folder / f"{PREFIX}{state.step:08}"
        document = {"step": state.step, "numbers": dict(state.numbers), "facts": facts}
        others = {FACTS: json.dumps(document, indent=1).encode() + b"\n"}
        self._make_way(path)
        patiently(lambda: write_directory(path, state.tensors, others), self.on_full, self.say)
        manifest.verify(path)
        self._prune()
        return path

    def _make_way(self, path: Path) -> None:
        """Move a damaged snapshot of this step away, which the new one replaces."""
        if path.exists():
            try:
                whole = manifest.verify(path)
            except VariorumError:
                whole = False
            if not whole:
                _drop(path)

    def _prune(self) -> None:
        """Drop what is beyond ``keep``, and what writers that were killed left."""
        for path in self._all()[max(2, self.keep) :]:
            _drop(path)
        for leftover in (*self.folder.glob(f".{PREFIX}*.dropped"), *self.folder.glob(f".{PREFIX}*.tmp-*")):
            shutil.rmtree(leftover, ignore_errors=True)

    def _all(self) -> list[Path]:
        """Every snapshot by its name, the newest first."""
        return sorted(self.folder.glob(f"{PREFIX}*"), reverse=True) if self.folder.is_dir() else []

    def newest(self) -> Snapshot | None:
        """The newest snapshot that verifies; those passed over are named aloud."""
        for path in self._all():
            try:
                return read(path)
            except VariorumError as error:
                self.say(f"skipped {path.name}, which is not whole: {error}")
        return None

    def named(self, name: str) -> Snapshot:
        """The snapshot that a user asks for.

        Raises:
            NotFound: there is none of this name. DamagedFile: it is not whole.
        """
        path = self.folder / name
        if not path.is_dir():
            known = ", ".join(p.name for p in self._all()) or "there are none"
            raise NotFound("no such checkpoint", where=str(path), remedy=known)
        return read(path)


def _drop(path: Path) -> None:
    """Put a snapshot out of sight before it goes, so that a kill leaves no half of one in its place."""
    aside = path.with_name(f".{path.name}.dropped")
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(OSError):
        path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def read(path: Path) -> Snapshot:
    """Read a snapshot, every byte verified.

    Raises:
        DamagedFile: it is not whole.
    """
    if not manifest.verify(path):
        raise DamagedFile(f"has no {manifest.NAME}: it was never finished", where=str(path))
    document = json.loads((path / FACTS).read_bytes())
    with TensorFiles(path) as files:
        tensors = {name: files.get(name) for name in files.shapes}
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
