"""The texts that a verb reads: from the command line, from a file, or one a line from stdin."""

from __future__ import annotations

import sys
from pathlib import Path

from variorum.errors import UsageError


def texts_of(given: tuple[str, ...], file: Path | None, column: str) -> list[str]:
    """The texts to read, in order.

    Raises:
        UsageError: none, or two sources. NotFound, DamagedFile: a file that is absent, or has a row that is no row.
    """
    if given and file is not None:
        raise UsageError("both --text and --file are given", remedy="give one of them")
    if given:
        return list(given)
    found = _from_stdin() if file is None else [text for _, text in numbered(file, column)]
    if not found:
        raise UsageError(
            "there is no text", where=str(file or ""), remedy="give --text, --file, or a text a line on stdin"
        )
    return found


def _from_stdin() -> list[str]:
    if sys.stdin is None or sys.stdin.isatty():
        return []
    try:
        return _lines(sys.stdin.buffer.read().decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        raise UsageError(f"is not UTF-8 at byte {error.start}", where="stdin", remedy="convert it to UTF-8") from None


def _lines(text: str) -> list[str]:
    """A text a line; a blank line is an empty text, so that rows of the result are lines of the source."""
    return text.removesuffix("\n").split("\n") if text else []


def numbered(file: Path, column: str) -> list[tuple[int, str]]:
    """The texts of a file, a line each or a column's, with the lines where they begin.

    Raises:
        NotFound, DamagedFile: the file is absent, or has a row that is no row.
    """
    from variorum.errors import DamagedFile
    from variorum.text.readers import read_table, read_text

    if not {".csv", ".tsv", ".jsonl"} & set(file.suffixes):
        return list(enumerate(_lines(read_text(file)), 1))
    table = read_table(file, required=[column])
    if table.bad:
        # Rows of the result must stand for rows of the file, so none may be left out.
        first = table.bad[0]
        raise DamagedFile(
            f"{len(table.bad)} bad rows, the first: {first.reason}",
            where=f"{file}, line {first.line}",
            remedy="mend them",
        )
    return [(row.line, row.cells[column]) for row in table.rows]
