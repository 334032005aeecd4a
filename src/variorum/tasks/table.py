"""Rows in and out of every task: a result has as many rows as its source, in the same order.

Reading keeps the rows that cannot be used in their places, each with what is wrong with it; writing puts them back
there. Files are those of :mod:`variorum.text.rows`; ``-`` is stdin, and there it is told by its beginning what it is.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from variorum.errors import AccessError, DamagedFile, UsageError
from variorum.files import write_whole
from variorum.text import rows
from variorum.text.readers import check_columns, read_rows

STDIN = "-"
ERROR = "error"
"""The column that says why a row has no answer."""
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
"""Kinds of file that results are written as; the textual ones also with ``.gz``."""
TOLD = 5

_NUMBER = re.compile(r"[+-]?(\d+([.,]\d+)*|\.\d+)([eE][+-]?\d+)?%?")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Row:
    """One row: the line it starts on, its cells by column, and why it cannot be used, if so."""

    line: int
    cells: Mapping[str, str]
    error: str = ""


@dataclass(frozen=True)
class Table:
    """All rows of a file in their order."""

    where: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def good(self) -> list[Row]:
        """The rows that can be used."""
        return [row for row in self.rows if not row.error]

    @property
    def bad(self) -> list[Row]:
        """The rows that cannot."""
        return [row for row in self.rows if row.error]

    def column(self, name: str) -> list[str]:
        """The cells of one column, a good row each."""
        check_columns([name], self.columns, self.where)
        return [row.cells[name] for row in self.good]

    def answered(self, answers: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
        """Every row with its cells and its answer, or its error.

        Args:
            answers: one for each good row, in order. A field named as a column is written as ``predicted_`` that name.
        """
        left = iter(answers)
        made: list[dict[str, object]] = []
        for row in self.rows:
            cells: dict[str, object] = {name: row.cells.get(name, "") for name in self.columns}
            answer = {ERROR: f"line {row.line}: {row.error}"} if row.error else next(left)
            made.append(cells | {f"predicted_{name}" if name in cells else name: x for name, x in answer.items()})
        if next(left, None) is not None:
            raise ValueError("more answers than rows to answer")
        return made

    def tell(self, say: Callable[[str], None]) -> None:
        """Say which rows cannot be used: the first few a line each, then how many more."""
        bad = self.bad
        for row in bad[:TOLD]:
            say(f"{self.where}, line {row.line}: {row.error}")
        if len(bad) > TOLD:
            say(f"{self.where}: {len(bad) - TOLD:,} further rows of {len(self.rows):,} cannot be used")


def read(source: str | Path, needed: Collection[str] = (), *, filled: Collection[str] | None = None) -> Table:
    """The rows of a file, or of stdin.

    Args:
        source: a file, or ``-``.
        needed: columns that must be there.
        filled: columns in which an empty cell makes a row one that cannot be used; those needed, unless given.

    Raises:
        NotFound, AccessError, DamagedFile, UsageError: as :func:`variorum.text.readers.read_rows`.
        NotFound: a column is not there. DamagedFile: a header without a row.
    """
    where = "stdin" if str(source) == STDIN else str(source)
    columns, found = _piped(needed) if str(source) == STDIN else read_rows(Path(source))
    check_columns(needed, columns, where)
    if not found:
        raise DamagedFile("has a header and no row", where=where)
    checked = tuple(needed if filled is None else filled)
    return Table(where, columns, tuple(_checked(item, checked) for item in found))


def _checked(item: rows.Row | rows.BadRow, filled: Sequence[str]) -> Row:
    if isinstance(item, rows.BadRow):
        return Row(item.line, {}, item.reason)
    empty = [name for name in filled if not item.cells.get(name, "").strip()]
    return Row(item.line, item.cells, f"empty {', '.join(empty)}" if empty else "")


def _piped(needed: Collection[str]) -> rows.Rows:
    """What stands on stdin: JSON lines, a table whose header has the columns, or a text a line."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("nothing is piped to it", where="stdin", remedy="give a file, or pipe a text a line")
    raw = sys.stdin.buffer.read()
    return rows.rows(raw, _kind(rows.decoded(raw, "stdin"), needed), "stdin")


def _kind(text: str, needed: Collection[str]) -> str:
    first = text.lstrip().partition("\n")[0]
    if first.startswith("{"):
        return ".jsonl"
    for kind, delimiter in ((".csv", ","), (".tsv", "\t")):
        header = next(csv.reader([first], delimiter=delimiter), [])
        if needed and {name.strip() for name in header} >= set(needed):
            return kind
    if set(needed) - {rows.TEXT}:
        raise UsageError(
            f"its first line does not name {', '.join(needed)}",
            where="stdin",
            remedy="pipe CSV with a header, or JSONL",
        )
    return ".txt"


def writable(target: Path) -> None:
    """See, before the work, that :func:`write` knows the kind of file and has a folder for it.

    Raises:
        UsageError: it does not. AccessError: there is no such folder.
    """
    if _ending(target) not in ENDINGS or target.name.endswith(".parquet.gz"):
        known = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        raise UsageError(f"cannot write rows as {target.suffix or 'this'}", where=str(target), remedy=f"use {known}")
    if not target.absolute().parent.is_dir():
        raise AccessError("there is no such folder", where=str(target.parent), remedy="make it first")


def write(target: Path, given: Sequence[Mapping[str, object]]) -> None:
    """Write rows as the ending of the name says: the whole file or, whatever happens, none.

    In CSV and TSV a text that a spreadsheet would take for a formula begins with ``'``, in columns that are not all
    numbers. JSON lines and Parquet hold everything as it is.

    Raises:
        UsageError, AccessError: as :func:`writable`, or it cannot be written there. OverBudget: the disk is full.
    """
    writable(target)
    content = _WRITERS[_ending(target)](list(given))
    if target.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    write_whole(target, content)


def _ending(target: Path) -> str:
    return Path(target.name.removesuffix(".gz")).suffix


def _names(given: Sequence[Mapping[str, object]]) -> list[str]:
    """The columns of rows that need not all have the same, the reason of a missing answer last."""
    names = list(dict.fromkeys(name for row in given for name in row))
    return sorted(names, key=lambda name: name == ERROR)


def _delimited(delimiter: str) -> Callable[[Sequence[Mapping[str, object]]], bytes]:
    def written(given: Sequence[Mapping[str, object]]) -> bytes:
        names = _names(given)
        columns = [_harmless([_spelled(row.get(name)) for row in given]) for name in names]
        sink = io.StringIO()
        writer = csv.writer(sink, delimiter=delimiter)
        writer.writerow(_harmless(names))
        writer.writerows(zip(*columns, strict=True))
        return sink.getvalue().encode()

    return written


def _harmless(cells: list[str]) -> list[str]:
    if all(not cell or _NUMBER.fullmatch(cell) for cell in cells):
        return cells
    return [f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in cells]


def _spelled(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> object:
    """What arrays and their numbers hold, for JSON."""
    return value.tolist()


def _json_lines(given: Sequence[Mapping[str, object]]) -> bytes:
    return "".join(json.dumps(dict(row), ensure_ascii=False, default=_plain) + "\n" for row in given).encode()


def _parquet(given: Sequence[Mapping[str, object]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    sink = pyarrow.BufferOutputStream()
    table = pyarrow.table({name: [row.get(name) for row in given] for name in _names(given)})
    pyarrow.parquet.write_table(table, sink)
    return bytes(sink.getvalue())


_WRITERS: dict[str, Callable[[Sequence[Mapping[str, object]]], bytes]] = {
    ".csv": _delimited(","),
    ".tsv": _delimited("\t"),
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".parquet": _parquet,
}
