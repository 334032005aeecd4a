"""Texts and labelled rows from files: plain text, CSV, TSV and JSON lines, also gzipped.

A bad row is never guessed at, shifted or silently lost: it is left out and reported with its line number, and the count
of all rows is kept. Reading is strict UTF-8; a byte-order mark is accepted and dropped.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import AccessError, DamagedFile, NotFound, UsageError, nearest

MAX_CELL = 2**27  # characters; the csv module's own limit would refuse long documents


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One good row: the line it starts on (the first line of the file is 1) and its cells by column."""

    line: int
    cells: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class BadRow:
    """One row that was left out, and why."""

    line: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A file of rows. ``rows`` and ``bad`` together are all its rows; blank lines are no rows."""

    columns: tuple[str, ...]
    rows: list[Row]
    bad: list[BadRow]

    @property
    def total(self) -> int:
        return len(self.rows) + len(self.bad)

    def column(self, name: str) -> list[str]:
        """The cells of one column, in order."""
        if name not in self.columns:
            raise NotFound(f"no column {name!r} among {', '.join(self.columns)}", remedy=nearest(name, self.columns))
        return [row.cells[name] for row in self.rows]


def read_text(path: Path) -> str:
    """The text of a ``.txt`` or ``.txt.gz`` file, with ``\\n`` line ends and no byte-order mark.

    Raises:
        NotFound, AccessError: the file is absent or cannot be read.
        DamagedFile: not UTF-8, or broken gzip.
    """
    raw = _content(Path(path))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
        raise DamagedFile(
            "this is UTF-16" if wide else f"not UTF-8 at byte {error.start}",
            where=f"{path}, line {raw.count(10, 0, error.start) + 1}",
            remedy="save it as UTF-8",
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def paragraphs(text: str) -> list[str]:
    """Blank-line-separated paragraphs, each on one line with single spaces."""
    blocks: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip():
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    return [" ".join(" ".join(block).split()) for block in blocks if block]


def read_documents(path: Path, *, by: str = "paragraph") -> list[str]:
    """The documents of a plain text file.

    Args:
        path: a ``.txt`` or ``.txt.gz`` file.
        by: "paragraph" (blank lines between), "line" (each non-blank line) or "file" (one document).
    """
    text = read_text(path)
    if by == "paragraph":
        return paragraphs(text)
    if by == "line":
        return [line for line in text.split("\n") if line.strip()]
    if by == "file":
        return [text] if text.strip() else []
    raise UsageError(f"cannot split a text by {by!r}", remedy=nearest(by, ("paragraph", "line", "file")))


def read_table(path: Path, *, required: Sequence[str] = ()) -> Table:
    """Rows of a ``.csv``, ``.tsv`` or ``.jsonl`` file (or the same with ``.gz``).

    CSV and TSV have a header line; cells may be quoted, with doubled quotes and line breaks inside. JSON lines are one
    object a line; numbers and truth values become their JSON spelling, null the empty text.

    Args:
        path: the file.
        required: columns that must exist and, in every row, must not be empty.

    Raises:
        NotFound: the file, or a required column, does not exist.
        DamagedFile: not UTF-8, no header, a quote that never closes, or not one good row.
        UsageError: a kind of file that is not read here.
    """
    path = Path(path)
    kind = next((suffix for suffix in reversed(path.suffixes) if suffix != ".gz"), "")
    text = read_text_keeping_line_ends(path)
    if kind in (".csv", ".tsv"):
        columns, found = _delimited(text, "," if kind == ".csv" else "\t", path)
    elif kind in (".jsonl", ".ndjson"):
        columns, found = _json_lines(text, path)
    else:
        raise UsageError(f"cannot read rows from {kind or 'a file without a suffix'}", where=str(path),
                         remedy="use .csv, .tsv or .jsonl, or one of these with .gz")  # fmt: skip
    for name in required:
        if name not in columns:
            raise NotFound(
                f"no column {name!r} among {', '.join(columns)}", where=str(path), remedy=nearest(name, columns)
            )
    rows: list[Row] = []
    bad: list[BadRow] = []
    for item in found:
        if isinstance(item, BadRow):
            bad.append(item)
            continue
        empty = [name for name in required if not item.cells.get(name, "").strip()]
        if empty:
            bad.append(BadRow(line=item.line, reason=f"empty {', '.join(empty)}"))
        else:
            rows.append(item)
    if not rows:
        reason = f"; line {bad[0].line}: {bad[0].reason}" if bad else ""
        raise DamagedFile(f"no usable row{reason}", where=str(path))
    return Table(columns=columns, rows=rows, bad=bad)


def read_text_keeping_line_ends(path: Path) -> str:
    """:func:`read_text` for formats in which a line end may stand inside a quoted cell."""
    raw = _content(path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return read_text(path)  # raises, with the line


def _content(path: Path) -> bytes:
    if not path.exists():
        raise NotFound("no such file", where=str(path))
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise AccessError(f"cannot read ({error.strerror})", where=str(path)) from error
    if path.suffix != ".gz":
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedFile(f"broken gzip ({error})", where=str(path)) from None


def _delimited(text: str, delimiter: str, path: Path) -> tuple[tuple[str, ...], list[Row | BadRow]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines = _csv_rows(reader, path)
    try:
        _, header = next(lines)
    except StopIteration:
        raise DamagedFile("empty file", where=str(path)) from None
    columns = tuple(name.strip() for name in header)
    if len(set(columns)) != len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise DamagedFile(f"column {twice!r} occurs twice", where=f"{path}, line 1")
    found: list[Row | BadRow] = []
    for line, cells in lines:
        if len(cells) != len(columns):
            found.append(BadRow(line=line, reason=f"{len(cells)} cells for {len(columns)} columns"))
        else:
            found.append(Row(line=line, cells=dict(zip(columns, cells, strict=True))))
    return columns, found


def _csv_rows(reader: Iterator[list[str]], path: Path) -> Iterator[tuple[int, list[str]]]:
    """Non-blank rows with the line they start on."""
    limit = csv.field_size_limit(MAX_CELL)
    try:
        while True:
            line = reader.line_num + 1  # type: ignore[attr-defined]
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise DamagedFile(f"{error}", where=f"{path}, from line {line}", remedy="close the quote") from None
            if cells:
                yield line, cells
    finally:
        csv.field_size_limit(limit)


def _json_lines(text: str, path: Path) -> tuple[tuple[str, ...], list[Row | BadRow]]:
    columns: dict[str, None] = {}
    found: list[Row | BadRow] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = str(error).split(":")[0] if isinstance(error, ValueError) else "nested too deeply"
            found.append(BadRow(line=number, reason=f"not JSON ({reason})"))
            continue
        if not isinstance(value, dict):
            found.append(BadRow(line=number, reason=f"not an object but {type(value).__name__}"))
            continue
        columns |= dict.fromkeys(value)
        found.append(Row(line=number, cells={name: _cell(item) for name, item in value.items()}))
    if not columns:
        raise DamagedFile("no line is a JSON object", where=str(path))
    empty = dict.fromkeys(columns, "")
    filled = [Row(line=item.line, cells=empty | item.cells) if isinstance(item, Row) else item for item in found]
    return tuple(columns), filled


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
