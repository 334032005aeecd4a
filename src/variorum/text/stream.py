"""Documents one at a time from wherever a corpus lies: text, JSON lines, Parquet, a ``datasets`` id, shipped novels.

A document is what belongs together: nothing is packed, paired or split across its border. Order is that of the sources.
Whole files of text are read at once; rows are read as they come. Blank documents are left out.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import AccessError, DamagedFile, NotFound, UsageError, nearest
from .readers import read_documents

By = Literal["paragraph", "line", "file"]
SHIPPED = "austen"
FROM_HUB = "hf:"
TEXT, JSON_LINES, PARQUET = (".txt", ".md"), (".jsonl", ".ndjson"), (".parquet",)
SUFFIXES = (*TEXT, *JSON_LINES, *PARQUET)
_HEADING = re.compile(r"^ *(?:chapter|volume) +[ivxlc\d]+\.? *$", re.IGNORECASE | re.MULTILINE)
_SHORTEST_CHAPTER = 1000  # characters; between "VOLUME I" and "CHAPTER I" nothing stands


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where documents come from.

    Attributes:
        place: a file, a folder of files, ``austen`` (the shipped novels by chapter) or one of them
            (``austen/Persuasion``), or ``hf:org/name`` with ``:config`` and ``@split`` after it where needed (the
            ``hub`` extra).
        by: what a document is in a text file.
        column: where the text is, in files of rows.
    """

    place: str
    by: By = "paragraph"
    column: str = "text"

    def documents(self) -> Iterator[str]:
        """Every document that is not blank.

        Raises:
            NotFound, AccessError: nothing is there, or it may not be read. DamagedFile: it is not what its name says.
            UsageError: a kind of file that is not read here.
        """
        return (text for text in self._every() if text.strip())

    def _every(self) -> Iterator[str]:
        if self._shipped:
            yield from shipped_chapters(self.place.removeprefix(SHIPPED).removeprefix("/"))
        elif self.place.startswith(FROM_HUB):
            yield from _hub(self.place.removeprefix(FROM_HUB), self.column)
        else:
            for path in self.files():
                yield from _READERS[_kind(path)](path, self)

    @property
    def _shipped(self) -> bool:
        return self.place == SHIPPED or self.place.startswith(f"{SHIPPED}/")

    def files(self) -> list[Path]:
        """The files behind it, in order; none for what is shipped or fetched."""
        if self._shipped or self.place.startswith(FROM_HUB):
            return []
        path = Path(self.place).expanduser()
        if path.is_dir():
            found = sorted(p for p in path.rglob("*") if p.is_file() and _kind(p) in SUFFIXES)
            if not found:
                raise NotFound(f"holds no {', '.join(SUFFIXES)}", where=self.place)
            return found
        if not path.exists():
            remedy = nearest(self.place, [SHIPPED]) or "give a file, a folder, austen, or hf:org/name"
            raise NotFound("no such file or folder", where=self.place, remedy=remedy)
        if _kind(path) not in SUFFIXES:
            raise UsageError(
                f"cannot read documents from {_kind(path) or 'a file without a suffix'}", where=self.place,
                remedy=f"use {', '.join(SUFFIXES)}, texts also with .gz",
            )  # fmt: skip
        return [path]

    def fingerprint(self) -> str:
        """The SHA-256 of what it is made of: equal for equal files read in the same way."""
        digest = hashlib.sha256(json.dumps([self.by, self.column]).encode())
        files = self.files()
        if not files:
            digest.update(self.place.encode())
        for path in files:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()


def shipped_chapters(title: str = "") -> Iterator[str]:
    """The chapters of the shipped novels, or of one, in reading order, headings left out.

    Raises:
        NotFound: none has that title.
    """
    from .corpora import NOVELS, austen

    if title and title not in NOVELS:
        where = f"{SHIPPED}/{title}"
        raise NotFound("no such novel is shipped", where=where, remedy=nearest(title, NOVELS) or ", ".join(NOVELS))
    novels = austen()
    for novel in [novels[title]] if title else novels.values():
        parts = (part.strip() for part in _HEADING.split(novel)[1:])
        yield from (part for part in parts if len(part) > _SHORTEST_CHAPTER)


def _kind(path: Path) -> str:
    return next((suffix for suffix in reversed(path.suffixes) if suffix != ".gz"), "").lower()


def _texts(path: Path, source: Source) -> Iterator[str]:
    yield from read_documents(path, by=source.by)


def _json_rows(path: Path, source: Source) -> Iterator[str]:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _json_cell(line, source.column, f"{path}, line {number}")
    except PermissionError as error:
        raise AccessError("may not be read", where=str(path)) from error
    except (OSError, EOFError) as error:
        raise DamagedFile(f"cannot be read ({error})", where=str(path)) from error


def _json_cell(line: bytes, column: str, where: str) -> str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise DamagedFile("is not JSON", where=where, remedy="mend or remove that line") from None
    if not isinstance(row, dict) or not isinstance(row.get(column), str):
        known = list(row) if isinstance(row, dict) else []
        remedy = nearest(column, known) or (f"--column may be {', '.join(known[:9])}" if known else "one object a line")
        raise DamagedFile(f"has no text {column!r}", where=where, remedy=remedy)
    return str(row[column])


def _parquet_rows(path: Path, source: Source) -> Iterator[str]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if source.column not in names:
                raise NotFound(
                    f"no column {source.column!r} among {', '.join(names)}", where=str(path),
                    remedy=nearest(source.column, names) or "name one with --column",
                )  # fmt: skip
            for batch in file.iter_batches(columns=[source.column], batch_size=1024):
                yield from (text for text in batch.column(0).to_pylist() if text is not None)
    except pa.ArrowInvalid as error:
        raise DamagedFile(f"is no Parquet file ({str(error).splitlines()[0][:120]})", where=str(path)) from None
    except PermissionError as error:
        raise AccessError("may not be read", where=str(path)) from error


def _hub(place: str, column: str) -> Iterator[str]:
    """Rows of a data set on the Hub, streamed; ``place`` is org/name[:config][@split]."""
    try:
        import datasets
    except ImportError:
        raise UsageError(
            "data sets of the Hub need the package datasets", where=f"{FROM_HUB}{place}",
            remedy="pip install 'variorum[hub]'",
        ) from None  # fmt: skip
    where = f"{FROM_HUB}{place}"
    place, _, split = place.partition("@")
    name, _, config = place.partition(":")
    try:
        for row in datasets.load_dataset(name, config or None, split=split or "train", streaming=True):
            if not isinstance(row.get(column), str):
                known = ", ".join(row)
                raise NotFound(f"no text {column!r} among {known}", where=where, remedy="name one with --column")
            yield row[column]
    except ConnectionError as error:
        what, remedy = f"the Hub is not reached ({_first(error)})", "go online, or give a folder of .jsonl or .parquet"
        raise NotFound(what, where=where, remedy=remedy) from error
    except (FileNotFoundError, ValueError) as error:
        remedy = "hf:org/name, then :config and @split as it has them"
        raise NotFound(_first(error), where=where, remedy=remedy) from error


def _first(error: Exception) -> str:
    """The first line of what somebody else's error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


_READERS = {
    **dict.fromkeys(TEXT, _texts), **dict.fromkeys(JSON_LINES, _json_rows), **dict.fromkeys(PARQUET, _parquet_rows)
}  # fmt: skip


def documents(sources: Sequence[Source]) -> Iterator[str]:
    """The documents of several sources, one after the other."""
    for source in sources:
        yield from source.documents()
