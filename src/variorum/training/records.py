"""What a run writes down as it goes: ``metrics.jsonl``, one object a line, and mirrors in other people's viewers.

The log holds nothing that depends on the clock, so that an interrupted and resumed run leaves the same bytes as one
that went straight through. Times and speeds are in ``speed.jsonl``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from variorum.errors import UsageError

METRICS, SPEED = "metrics.jsonl", "speed.jsonl"
Viewer = Literal["tensorboard", "trackio"]


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

    def close(self) -> None: ...


def mirror(viewer: Viewer | None, folder: Path) -> Mirror | None:
    """The viewer that the user asked for.

    Raises:
        UsageError: its package is not installed.
    """
    if viewer is None:
        return None
    try:
        return _TensorBoard(folder) if viewer == "tensorboard" else _Trackio(folder)
    except ImportError:
        remedy = "pip install 'variorum[track]'" if viewer == "tensorboard" else "pip install trackio"
        raise UsageError(f"the package {viewer} is not installed", where="--track", remedy=remedy) from None


class _TensorBoard:
    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def add(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class _Trackio:
    def __init__(self, folder: Path) -> None:
        import trackio

        self.run: Any = trackio.init(project="variorum", name=folder.name)

    def add(self, step: int, numbers: Mapping[str, float]) -> None:
        self.run.log(dict(numbers), step=step)

    def close(self) -> None:
        self.run.finish()
