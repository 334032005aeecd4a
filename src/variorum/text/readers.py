"""Texts and labelled rows from files: plain text, CSV, TSV, JSON lines and Parquet, the textual ones also gzipped.

A bad row is never guessed at, shifted or silently lost: it is left out and reported with its line number, and the count
of all rows is kept. Reading is strict UTF-8; a byte-order mark is accepted and dropped.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import AccessError, DamagedFile, NotFound, UsageError, nearest
from .rows import KINDS, BadRow, Row, Rows, decoded, rows

__all__ = [
    "BadRow",
    "Row",
    "Table",
    "check_columns",
    "paragraphs",
    "read_documents",
    "read_rows",
    "read_table",
    "read_text",
]


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
    return decoded(_content(Path(path)), str(path)).replace("\r\n", "\n").replace("\r", "\n")


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
    """The good rows of a file that :func:`read_rows` reads, and apart from them the bad ones.

    Args:
        path: the file.
        required: columns that must exist and, in every row, must not be empty.

    Raises:
        NotFound: the file, or a required column, does not exist.
        DamagedFile: as :func:`read_rows`, or not one good row.
        UsageError: a kind of file that is not read here.
    """
    columns, found = read_rows(path)
    check_columns(required, columns, str(path))
    good: list[Row] = []
    bad: list[BadRow] = []
    for item in found:
        if isinstance(item, BadRow):
            bad.append(item)
        elif empty := [name for name in required if not item.cells[name].strip()]:
            bad.append(BadRow(line=item.line, reason=f"empty {', '.join(empty)}"))
        else:
            good.append(item)
    if not good:
        reason = f"; line {bad[0].line}: {bad[0].reason}" if bad else ""
        raise DamagedFile(f"no usable row{reason}", where=str(path))
    return Table(columns=columns, rows=good, bad=bad)


def read_rows(path: Path) -> Rows:
    """Every row, in order, of a ``.csv``, ``.tsv``, ``.jsonl``, ``.txt`` (each also with ``.gz``) or ``.parquet`` file.

    CSV and TSV have a header line; cells may be quoted, with doubled quotes and line breaks inside. JSON lines are one
    object a line; numbers stay as they are written, truth values get their JSON spelling, null is the empty text.
    ``.conll`` and SQuAD's ``.json`` are as in :mod:`variorum.text.annotated`.

    Raises:
        NotFound, AccessError: the file is absent or cannot be read.
        DamagedFile: not UTF-8, no header, or a quote that never closes.
        UsageError: a kind of file that is not read here.
    """
    path = Path(path)
    kind = next((suffix for suffix in reversed(path.suffixes) if suffix != ".gz"), "")
    if kind not in KINDS:
        raise UsageError(f"cannot read rows from {kind or 'a file without a suffix'}", where=str(path),
                         remedy="use .csv, .tsv, .jsonl, .txt, .parquet, .conll or SQuAD's .json")  # fmt: skip
    return rows(_content(path), kind, str(path))


def check_columns(needed: Collection[str], columns: Sequence[str], where: str) -> None:
    """See that a file has the columns that are needed.

    Raises:
        NotFound: it lacks one; the error names the nearest of those that it has.
    """
    for name in needed:
        if name not in columns:
            raise NotFound(f"no column {name!r} among {', '.join(columns)}", where=where, remedy=nearest(name, columns))


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
