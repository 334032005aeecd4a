"""A cell is one arm with one seed; its result is cached under a hash of everything that decides it.

The hash covers the spec, the recipe, the data, the seed, the threads, the torch release and the source code
that computes the cell, so a cached result is either the one that a fresh run would give, or not found.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from variorum.files import sweep, write_whole

COMPUTES = ("spec", "parts", "attention", "objectives", "training", "tasks")
"""Packages whose source decides a cell's numbers, beside the single files in :data:`COMPUTES_FILES`."""
COMPUTES_FILES = ("model.py", "builder.py", "study/jobs.py", "study/lesson.py", "study/ways.py",
                  "study/answering.py", "text/like.py")  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One arm with one seed.

    Attributes:
        call: ``module:function`` that computes it, run in a worker as ``function(report=…, **work)``.
        work: its arguments; everything in here is hashed, except paths, whose content ``data`` stands for.
        data: sha256 of the data read.
        apart: what sets it apart from other cells of its arm and seed.
        steps: units of progress that the function reports.
    """

    study: str
    arm: str
    seed: int
    call: str
    work: Mapping[str, Any]
    data: str
    steps: int
    threads: int
    apart: str = ""

    @property
    def name(self) -> str:
        return f"{self.study}/{self.arm} {self.apart or f'seed {self.seed}'}"

    @cached_property
    def design(self) -> str:
        """A hash of what is computed, whatever computes it."""
        decides = {k: v for k, v in self.work.items() if not isinstance(v, Path)}
        return fingerprint({"call": self.call, "work": decides, "data": self.data, "seed": self.seed})

    @cached_property
    def key(self) -> str:
        """The content hash, 64 hex digits."""
        return fingerprint(
            {
                "design": self.design,
                "threads": self.threads,
                "torch": metadata.version("torch"),
                "machine": platform.machine(),
                "code": code_digest(),
            }
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CellResult:
    """What a finished cell leaves.

    Attributes:
        items: score of each item (bits per byte), or what was answered, as JSON holds it: a class id, a number, tags.
        curve: held-out score after so many steps, (step, score).
        losses: training loss of each step, nats per target.
        facts: parameters, seconds, peak memory, threads, versions: recorded, never compared.
    """

    items: tuple[Any, ...]
    curve: tuple[tuple[int, float], ...]
    losses: tuple[float, ...]
    facts: Mapping[str, Any]


class CellStore:
    """Finished cells in a folder, one checked file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        sweep(folder)

    def path(self, cell: Cell) -> Path:
        stem = "".join(c if c.isalnum() else "-" for c in f"{cell.study}-{cell.arm}")
        return self.folder / f"{stem}-seed{cell.seed}-{cell.key[:16]}.json"

    def get(self, cell: Cell) -> CellResult | None:
        """The cached result, or None where there is none or its file does not verify."""
        try:
            record = json.loads(self.path(cell).read_bytes())
            body = record["result"]
            if record["key"] != cell.key or record["sha256"] != _digest(body):
                return None
            return CellResult(
                items=tuple(body["items"]),
                curve=tuple((int(step), float(score)) for step, score in body["curve"]),
                losses=tuple(body["losses"]),
                facts=body["facts"],
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def put(self, cell: Cell, result: CellResult) -> None:
        """Store a result; a kill at any moment leaves either nothing or all of it."""
        body = json.loads(json.dumps(dataclasses.asdict(result), allow_nan=False))
        record = {"key": cell.key, "cell": cell.name, "sha256": _digest(body), "result": body}
        write_whole(self.path(cell), json.dumps(record, indent=1).encode())


def _digest(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def fingerprint(value: Any) -> str:
    """sha256 of a value built from dataclasses, mappings, sequences and plain values.

    Raises:
        TypeError: a value whose text would not identify it (an arbitrary object).
    """
    digest = hashlib.sha256()
    for piece in _canonical(value):
        digest.update(piece.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _canonical(value: Any) -> Iterator[str]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield f"<{type(value).__qualname__}"
        for field in dataclasses.fields(value):
            yield field.name
            yield from _canonical(getattr(value, field.name))
        yield ">"
    elif isinstance(value, Mapping):
        yield "{"
        for key in sorted(value, key=str):
            yield from _canonical(key)
            yield from _canonical(value[key])
        yield "}"
    elif isinstance(value, tuple | list | frozenset | set):
        yield "["
        for item in value if isinstance(value, tuple | list) else sorted(value, key=repr):
            yield from _canonical(item)
        yield "]"
    elif isinstance(value, enum.Enum):
        yield f"{type(value).__qualname__}.{value.name}"
    elif value is None or isinstance(value, bool | int | float | str):
        yield f"{type(value).__name__}:{value!r}"
    elif isinstance(value, type):
        yield f"class:{value.__qualname__}"
    else:
        raise TypeError(f"a {type(value).__name__} cannot be part of a cell's hash")


@cache
def code_digest() -> str:
    """sha256 over the source that computes a cell."""
    root = Path(__file__).parent.parent
    files = [path for package in COMPUTES for path in sorted((root / package).rglob("*.py"))]
    digest = hashlib.sha256()
    for path in [*files, *(root / name for name in COMPUTES_FILES)]:
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
