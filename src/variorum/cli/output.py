"""Results on stdout, everything else on stderr: tables for people, JSON for programs.

It formats, and decides nothing. It is plain text without a library: a table must not cost more time than the answer.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

Format: TypeAlias = Literal["human", "json", "jsonl"]
Row: TypeAlias = Mapping[str, object]

# C0 and C1 controls but newline and tab: text from a file must not drive the reader's terminal.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_GAP = "  "
_NARROWEST = 16

_chosen: Format = "human"


class Column(NamedTuple):
    """A column of a table for people.

    Args:
        key: the field of each row that it shows.
        header: its heading; the key if empty.
        show: how a value is written; :func:`written` unless given.
    """

    key: str
    header: str = ""
    show: Callable[[object], str] | None = None


def choose(format: Format) -> None:
    """Set the format of everything that :func:`emit` prints from here on."""
    global _chosen
    _chosen = format


def chosen() -> Format:
    """The format in force, for a verb whose work depends on who reads it."""
    return _chosen


def emit(
    data: object,
    columns: Sequence[str | Column] | None = None,
    format: Format | None = None,
    *,
    human: str | None = None,
) -> None:
    """Print a result on stdout.

    Args:
        data: a row or a list of rows; a row is a mapping or a dataclass. It is what JSON readers get, whole.
        columns: what the table for people shows, in order; every field unless given.
        format: overrides the format chosen on the command line.
        human: the text for people, where a table is not the way to say it.
    """
    format = format or _chosen
    if format != "human":
        import json
    if format == "json":
        lines = [json.dumps(plain(data), ensure_ascii=False, indent=2)]
    elif format == "jsonl":
        lines = [json.dumps(plain(row), ensure_ascii=False) for row in (data if _is_list(data) else [data])]  # type: ignore[attr-defined]
    elif human is not None:
        lines = [_CONTROLS.sub("", human.rstrip("\n"))]
    elif _is_list(data):
        lines = table([_fields(row) for row in data], columns)  # type: ignore[attr-defined]
    else:
        lines = pairs(_fields(data), columns)
    for line in lines:
        print(line)


def pour(pieces: Iterable[str]) -> None:
    """Print a text for people on stdout piece by piece, as it comes."""
    for piece in pieces:
        print(_CONTROLS.sub("", piece), end="", flush=True)
    print()


def say(*words: object) -> None:
    """Write a note to stderr: progress, a warning, where a file is."""
    print(*words, file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """``text`` on one line, without what could drive a terminal."""
    return _CONTROLS.sub("", " ".join(text.split()))


def plain(value: object) -> object:
    """``value`` as JSON has it: dataclasses and mappings as objects, figures that are not finite as null."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # arrays and tensors, whose packages need not be there
        return plain(value.tolist())
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)


def written(value: object) -> str:
    """``value`` as people read it: thousands apart, four significant digits, blank for nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, enum.Enum):
        return written(value.value)
    if isinstance(value, (list, tuple)):
        return ", ".join(written(item) for item in value)
    return _CONTROLS.sub("", str(value)).replace("\n", " ")


def table(rows: Sequence[Row], columns: Sequence[str | Column] | None = None) -> list[str]:
    """The lines of an aligned table; figures stand to the right, long text wraps on a terminal."""
    if columns is None:
        columns = list(dict.fromkeys(key for row in rows for key in row))
    chosen_columns = [Column(column) if isinstance(column, str) else column for column in columns]
    cells = [[(c.show or written)(row.get(c.key)) for c in chosen_columns] for row in rows]
    headers = [c.header or c.key.replace("_", " ") for c in chosen_columns]
    right = [
        bool(rows) and all(row.get(c.key) is None or _is_figure(row[c.key]) for row in rows) for c in chosen_columns
    ]
    widths = [max(len(line[i]) for line in [headers, *cells]) for i in range(len(headers))]
    widths = _fitted(widths, right)
    lines = _wrapped(headers, widths, right)
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        lines = [f"\x1b[1m{line}\x1b[0m" for line in lines]
    for line in cells:
        lines += _wrapped(line, widths, right)
    return lines


def pairs(row: Row, columns: Sequence[str | Column] | None = None) -> list[str]:
    """The lines of one object: a name and a value each."""
    chosen_columns = [Column(c) if isinstance(c, str) else c for c in (columns if columns is not None else list(row))]
    names = [c.header or c.key.replace("_", " ") for c in chosen_columns]
    width = max((len(name) for name in names), default=0)
    values = [(c.show or written)(row.get(c.key)) for c in chosen_columns]
    return [f"{name:<{width}}{_GAP}{value}".rstrip() for name, value in zip(names, values, strict=True)]


def _is_list(data: object) -> bool:
    return isinstance(data, Iterable) and not isinstance(data, (Mapping, str, bytes))


def _is_figure(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _fields(row: object) -> Row:
    if isinstance(row, Mapping):
        return row
    if dataclasses.is_dataclass(row):
        return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    return {"value": row}


def _fitted(widths: list[int], right: list[bool]) -> list[int]:
    """Narrow the widest text columns until the table fits the terminal; a file gets the full width."""
    if not sys.stdout.isatty():
        return widths
    import shutil

    room = shutil.get_terminal_size().columns - len(_GAP) * (len(widths) - 1)
    fitted = list(widths)
    while sum(fitted) > room:
        texts = [i for i, width in enumerate(fitted) if not right[i] and width > _NARROWEST]
        if not texts:
            break
        fitted[max(texts, key=lambda i: fitted[i])] -= 1
    return fitted


def _wrapped(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    """One row of a table as lines; a cell wider than its column takes several."""
    columns = [_in_width(cell, width) for cell, width in zip(cells, widths, strict=True)]
    height = max((len(column) for column in columns), default=0)
    lines = []
    for place in range(height):
        parts = [column[place] if place < len(column) else "" for column in columns]
        padded = [
            part.rjust(width) if to_right else part.ljust(width)
            for part, width, to_right in zip(parts, widths, right, strict=True)
        ]
        lines.append(_GAP.join(padded).rstrip())
    return lines


def _in_width(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    import textwrap

    return textwrap.wrap(text, width) or [""]
