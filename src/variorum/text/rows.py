"""The rows that a file holds: CSV, TSV, JSON lines, Parquet, a text a line, CoNLL, SQuAD; every one, in order.

A row that cannot be read keeps its place and says why; it is never guessed at and never shifted into other columns.
Cells are text as it was written: ``NA``, ``null`` and ``1.50`` stay what they are.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import DamagedFile
from . import annotated

MAX_CELL = 2**27  # characters; the csv module's own limit would refuse long documents
TEXT = "text"
"""The one column of a file that has a text a line."""
UNCLOSED = "unexpected end of data"  # the csv module's words for a quote that is open when the file ends


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One good row: the line it starts on (the first line of the file is 1) and its cells by column."""

    line: int
    cells: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class BadRow:
    """One row that cannot be used, and why."""

    line: int
    reason: str


class Rows(NamedTuple):
    """Everything in a file: its columns, and its rows in order; blank lines of CSV and JSON lines are no rows."""

    columns: tuple[str, ...]
    found: list[Row | BadRow]


def decoded(raw: bytes, where: str) -> str:
    """Strict UTF-8, without its byte-order mark.

    Raises:
        DamagedFile: it is not UTF-8; UTF-16 is told as such.
    """
    wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff") or raw[:4].count(0) == 2
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = f"{where}, line {raw.count(10, 0, error.start) + 1}"
        what = "this is UTF-16" if wide else f"not UTF-8 at byte {error.start}"
        raise DamagedFile(what, where=where, remedy="save it as UTF-8") from None
    if wide:
        raise DamagedFile("this is UTF-16", where=where, remedy="save it as UTF-8")
    return text


def rows(raw: bytes, kind: str, where: str) -> Rows:
    """What ``raw`` holds.

    Args:
        kind: of ``KINDS``, the ending of a file's name.
        where: what errors call it.

    Raises:
        DamagedFile: not UTF-8, no header, a column twice, a quote that never closes, no Parquet.
    """
    return _parquet(raw, where) if kind == ".parquet" else _TEXTUAL[kind](decoded(raw, where), where)


def _comma(text: str, where: str) -> Rows:
    return _delimited(text, where, ",")


def _tab(text: str, where: str) -> Rows:
    return _delimited(text, where, "\t")


def _delimited(text: str, where: str, delimiter: str) -> Rows:
    lines = _cells(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), where)
    first = next(lines, None)
    if first is None:
        raise DamagedFile("empty file", where=where)
    if isinstance(first, BadRow):
        raise DamagedFile(first.reason, where=f"{where}, line {first.line}")
    columns = tuple(name.strip() for name in first[1])
    _check_columns(columns, f"{where}, line {first[0]}")
    found: list[Row | BadRow] = []
    for item in lines:
        if isinstance(item, BadRow):
            found.append(item)
        elif len(item[1]) != len(columns):
            cells = f"{len(item[1])} cell{'s' if len(item[1]) != 1 else ''}"
            found.append(BadRow(line=item[0], reason=f"{cells} for {len(columns)} columns"))
        else:
            found.append(Row(line=item[0], cells=dict(zip(columns, item[1], strict=True))))
    return Rows(columns, found)


def _cells(reader: Any, where: str) -> Iterator[tuple[int, list[str]] | BadRow]:
    """Rows that are not blank, with the line they start on."""
    limit = csv.field_size_limit(MAX_CELL)
    try:
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if str(error) == UNCLOSED:  # everything that follows is in the quotes: nobody can tell its rows
                    raise DamagedFile(
                        "a quote is never closed", where=f"{where}, from line {line}", remedy="close the quote"
                    ) from None
                yield BadRow(line=line, reason=f"{error}; double the quotes inside a quoted cell")
                continue
            if cells:
                yield line, cells
    finally:
        csv.field_size_limit(limit)


def _check_columns(columns: tuple[str, ...], where: str) -> None:
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise DamagedFile(f"column {twice!r} occurs twice", where=where, remedy="give each column a name of its own")


class _Written(str):
    """A number as it was written."""


def _json_lines(text: str, where: str) -> Rows:
    columns: dict[str, None] = {}
    found: list[Row | BadRow] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = _decode(line)
            if not isinstance(value, dict):
                raise ValueError(f"not an object but {'number' if isinstance(value, _Written) else _kind(value)}")
            cells = {name: _cell(item) for name, item in value.items()}
            "".join((*cells, *cells.values())).encode()
        except json.JSONDecodeError as error:
            found.append(BadRow(line=number, reason=f"not JSON ({error.msg})"))
        except RecursionError:
            found.append(BadRow(line=number, reason="not JSON (nested too deeply)"))
        except UnicodeEncodeError:
            found.append(BadRow(line=number, reason="half a surrogate pair, which is no character"))
        except ValueError as error:
            found.append(BadRow(line=number, reason=str(error)))
        else:
            columns |= dict.fromkeys(cells)
            found.append(Row(line=number, cells=cells))
    if not columns:
        first = found[0] if found and isinstance(found[0], BadRow) else None
        raise DamagedFile(
            "no line is a JSON object" + (f"; line {first.line}: {first.reason}" if first else ""), where=where
        )
    return Rows(tuple(columns), _filled(found, columns))


def _filled(found: list[Row | BadRow], columns: dict[str, None]) -> list[Row | BadRow]:
    """The rows with every column; what a row lacks is empty."""
    empty = dict.fromkeys(columns, "")
    return [Row(line=one.line, cells=empty | one.cells) if isinstance(one, Row) else one for one in found]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key occurs twice")
    return made


_decode: Callable[[str], Any] = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_Written, parse_float=_Written, parse_constant=_Written
).decode


def _kind(value: object) -> str:
    return {list: "list", str: "text", bool: "truth value", type(None): "null"}[type(value)]


def _cell(value: object) -> str:
    """Text as it is, null as nothing, truth values, numbers and lists as JSON spells them, and dates as text."""
    if value is None:
        return ""
    held = isinstance(value, (bool, int, float, list, dict))
    return json.dumps(_plain(value), ensure_ascii=False, default=str) if held else str(value)


def _plain(value: Any) -> Any:
    """``value`` with numbers for what was written as one: inside a list their spelling is JSON's."""
    if isinstance(value, _Written):
        return json.loads(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value


def _lines(text: str, where: str) -> Rows:
    """A text a line; a blank line is an empty text, so that rows of a result are lines of the source."""
    if not text:
        raise DamagedFile("empty file", where=where)
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    return Rows((TEXT,), [Row(line=number, cells={TEXT: line}) for number, line in enumerate(lines, 1)])


def _parquet(raw: bytes, where: str) -> Rows:
    """Lines are counted as if every row were one."""
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(raw))
        columns = tuple(table.column_names)
        _check_columns(columns, where)
        values = [column.to_pylist() for column in table.columns]
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DamagedFile(f"no Parquet that can be read ({str(error).splitlines()[0]:.100})", where=where) from None
    found: list[Row | BadRow] = []
    for number, row in enumerate(zip(*values, strict=True), 1):
        cells = dict(zip(columns, row, strict=True))
        binary = [name for name, value in cells.items() if isinstance(value, bytes)]
        if binary:
            found.append(BadRow(line=number, reason=f"{', '.join(binary)} holds bytes, not text"))
        else:
            found.append(Row(line=number, cells={name: _cell(value) for name, value in cells.items()}))
    return Rows(columns, found)


def _conll(text: str, where: str) -> Rows:
    return _annotated(*annotated.conll(text, where))


def _squad(text: str, where: str) -> Rows:
    return _annotated(*annotated.squad(text, where))


def _annotated(columns: tuple[str, ...], found: list[annotated.Entry]) -> Rows:
    return Rows(columns, [Row(line=one.line, cells=one.cells) if not one.reason
                          else BadRow(line=one.line, reason=one.reason) for one in found])  # fmt: skip


_TEXTUAL: dict[str, Callable[[str, str], Rows]] = {
    ".csv": _comma,
    ".tsv": _tab,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".txt": _lines,
    ".conll": _conll,
    ".json": _squad,
}
KINDS = (*_TEXTUAL, ".parquet")
"""Kinds of file that have rows, by the endings of their names."""
