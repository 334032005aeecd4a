"""What a run writes down as it goes: ``metrics.jsonl``, one object a line, and mirrors in other people's viewers.

The log holds nothing that depends on the clock, so that an interrupted and resumed run leaves the same bytes as one
that went straight through. Times and speeds are in ``speed.jsonl``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from variorum.errors import UsageError
from variorum.training.wishes import Viewer

METRICS, SPEED = "metrics.jsonl", "speed.jsonl"
REMEDIES = {"tensorboard": "pip install 'variorum[track]'", "trackio": "pip install trackio"}


class Log:
    """A file of rows that each have a ``step``: appended to, synced before a snapshot, cut back to one on resume."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: list[bytes] = []

    def add(self, row: Mapping[str, Any]) -> None:
        """Take a row; it reaches the disk with the next :meth:`sync`."""
        self._waiting.append(json.dumps(row).encode() + b"\n")

    def sync(self) -> None:
        """Append what waits, so that it survives a loss of power."""
        if not self._waiting:
            return
        content = b"".join(self._waiting)
        with self.path.open("ab", buffering=0) as file:
            begin = file.seek(0, os.SEEK_END)
            try:
                rest = memoryview(content)
                while len(rest):
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(begin)  # half a line would be in the way of the next attempt
                raise
        self._waiting = []

    def cut(self, step: int) -> None:
        """Drop every row after ``step``, and a last line that was never finished."""
        self._waiting = []
        if not self.path.exists():
            return
        kept = 0
        with self.path.open("r+b") as file:
            for line in file:
                if not line.endswith(b"\n") or json.loads(line)["step"] > step:
                    break
                kept += len(line)
            file.truncate(kept)

    def rows(self) -> list[dict[str, Any]]:
        """Every row on disk."""
        return [json.loads(line) for line in self.path.read_bytes().splitlines()] if self.path.exists() else []


class Mirror(Protocol):
    """Where else numbers go, beside the log."""

    def add(self, step: int, numbers: Mapping[str, float]) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


def check_viewer(viewer: Viewer | None) -> None:
    """See that the viewer that the user asked for can be fed.

    Raises:
        UsageError: its package is not installed.
    """
    if viewer is not None and find_spec(viewer) is None:
        raise UsageError(f"the package {viewer} is not installed", where="--track", remedy=REMEDIES[viewer])


class Records:
    """All that a run writes down: its log, its times, and the mirror of the log in a viewer.

    Args:
        step: the last one that counts; what was written of later ones goes.
    """

    def __init__(self, folder: Path, viewer: Viewer | None, step: int) -> None:
        self.log, self.speed = Log(folder / METRICS), Log(folder / SPEED)
        self.log.cut(step)
        self.speed.cut(step)
        mirrors: dict[str | None, Any] = {"tensorboard": _TensorBoard, "trackio": _Trackio}
        self.mirror: Mirror | None = mirrors[viewer](folder, step) if viewer else None

    def add(self, step: int, numbers: Mapping[str, float]) -> None:
        """A row of the log."""
        self.log.add({"step": step, **numbers})
        if self.mirror is not None:
            self.mirror.add(step, numbers)

    def time(self, row: Mapping[str, float]) -> None:
        """A row of times."""
        self.speed.add(row)

    def sync(self) -> None:
        """Bring to the disk what waits."""
        self.log.sync()
        self.speed.sync()
        if self.mirror is not None:
            self.mirror.sync()

    def close(self) -> None:
        """Let the viewer go."""
        if self.mirror is not None:
            self.mirror.close()


class Unwritten:
    """The records of a process beside the first one of a run, which writes them for all."""

    def add(self, step: int, numbers: Mapping[str, float]) -> None: ...

    def time(self, row: Mapping[str, float]) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class _TensorBoard:
    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def add(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)

    def sync(self) -> None:
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


class _Trackio:
    def __init__(self, folder: Path, step: int) -> None:
        import trackio

        self.run: Any = trackio.init(project="variorum", name=folder.name, resume="allow")

    def add(self, step: int, numbers: Mapping[str, float]) -> None:
        self.run.log(dict(numbers), step=step)

    def sync(self) -> None:
        """What is logged is kept by another process, and outlives this one."""

    def close(self) -> None:
        self.run.finish()
