"""Items that wait for a person: a file of JSON lines to which many may write at once, none lost and none twice.

A line is an object with an ``id``. What arrives under an ``id`` that is there already changes nothing; a later line
with a ``label`` answers the earlier one. When :meth:`Queue.put` returns, its items are on the disk. If it is killed, it
has added some of them whole, and the next writer takes away what is left of a half line; putting the same items again
adds those that are missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from variorum.errors import AccessError, DamagedFile, NotFound, OverBudget

ID, LABEL = "id", "label"
ABSTAINED, CONFIDENCE = "abstained", "confidence"
Row = Mapping[str, Any]


def identity(row: Row) -> str:
    """An id made of what a row holds: the same row gets the same one, whoever puts it."""
    held = json.dumps(dict(row), sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(held.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def undecided(rows: Iterable[Row], ids: str = "") -> list[dict[str, Any]]:
    """Of the rows that ``variorum predict`` gives, those that are left to people, as items without an answer.

    Args:
        ids: the column that tells them apart; a row is known by all that it holds unless given.
    """
    items = []
    for row in rows:
        if row.get(ABSTAINED):
            held = {name: value for name, value in row.items() if name != ABSTAINED and value is not None}
            given = {name: value for name, value in held.items() if name != CONFIDENCE}
            items.append({**held, ID: str(row[ids]) if ids else identity(given)})
    return items


class Queue:
    """The queue in ``path``; the file is made by the first :meth:`put`."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    def put(self, rows: Iterable[Row]) -> int:
        """Add the rows that are not there yet, and say how many these were; on return they are on the disk.

        A row without an ``id`` gets its :func:`identity`.

        Raises:
            DamagedFile: the file holds something else. AccessError: it cannot be written. OverBudget: the disk is full.
        """
        named = {str(row[ID]) if ID in row else identity(row): row for row in rows}
        with self._open() as file:
            known = _merged(_lines(file, self.path))
            new = [{**row, ID: name} for name, row in named.items() if name not in known]
            self._append(file, new)
        return len(new)

    def answer(self, labels: Mapping[str, str]) -> None:
        """Give items their labels, by id; a later answer replaces an earlier one.

        Raises:
            NotFound: no such item. Further kinds as :meth:`put`.
        """
        with self._open() as file:
            known = _merged(_lines(file, self.path))
            for name in labels:
                if name not in known:
                    raise NotFound(f"no item {name!r:.80}", where=str(self.path))
            self._append(file, [{ID: name, LABEL: label} for name, label in labels.items()])

    def rows(self) -> list[dict[str, Any]]:
        """Every item once, in the order of arrival, with its last answer.

        Raises:
            NotFound: there is no such file. DamagedFile: it holds something else.
        """
        if not self.path.is_file():
            raise NotFound("no such file", where=str(self.path))
        with self.path.open("rb") as file:
            return list(_merged(_lines(file.fileno(), self.path)).values())

    def waiting(self) -> list[dict[str, Any]]:
        """Items without a label."""
        return [row for row in self.rows() if not row.get(LABEL)]

    def answered(self) -> list[dict[str, Any]]:
        """Items with a label, to learn from."""
        return [row for row in self.rows() if row.get(LABEL)]

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        """The file, for this writer alone, without the half line that a killed one may have left."""
        import fcntl

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise AccessError(f"cannot be written ({error.strerror})", where=str(self.path)) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX)  # the system lets go of it, however this process ends
            _mend(file)
            yield file
        finally:
            os.close(file)

    def _append(self, file: int, rows: Sequence[Row]) -> None:
        content = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        left = memoryview(content.encode())
        before = os.fstat(file).st_size
        try:
            while left:
                left = left[os.write(file, left) :]
            os.fsync(file)
            _sync_folder(self.path.parent)
        except OSError as error:
            os.ftruncate(file, before)
            raise OverBudget(
                f"could not be added to ({error.strerror})", where=str(self.path), remedy="free space, run again"
            ) from None


def _mend(file: int) -> None:
    """End the last line if it is whole, take it away if it is not: only its writer's kill can have left it so.

    No proper beginning of a JSON object is one, so the two can be told apart.
    """
    content = _read(file)
    begin = content.rfind(b"\n") + 1
    if begin == len(content):
        return
    try:
        json.loads(content[begin:])
    except ValueError:
        os.ftruncate(file, begin)
    else:
        os.write(file, b"\n")


def _lines(file: int, path: Path) -> Iterator[dict[str, Any]]:
    """The objects of the file, without an unfinished last one.

    Raises:
        DamagedFile: a line is no object with an id.
    """
    *whole, last = _read(file).split(b"\n")
    for number, line in enumerate([*whole, last], 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if number > len(whole):
                return
            raise DamagedFile("is no JSON", where=f"{path}, line {number}", remedy="mend or remove the line") from None
        if not isinstance(row, dict) or not isinstance(row.get(ID), (str, int)):
            raise DamagedFile("is no object with an id", where=f"{path}, line {number}")
        yield {**row, ID: str(row[ID])}


def _merged(lines: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Items by id, each with what later lines say of it."""
    found: dict[str, dict[str, Any]] = {}
    for row in lines:
        found[row[ID]] = {**found.get(row[ID], {}), **row}
    return found


def _read(file: int) -> bytes:
    size, parts, at = os.fstat(file).st_size, [], 0
    while at < size:
        part = os.pread(file, size - at, at)
        if not part:
            break
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
