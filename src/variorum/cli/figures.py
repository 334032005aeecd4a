"""The figures of tasks for people: side by side, and below them those of each type or part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from variorum.cli.output import chosen, pairs, table

ENDS = ("low", "high")
Row = Mapping[str, object]


def human(rows: Sequence[Row]) -> str | None:
    """Models with their figures, the interval behind the first one, as a table; one model alone as a list.

    ``None`` where a program reads it.
    """
    if chosen() != "human" or not rows:
        return None
    plain = [{name: _short(value) if name == "model" else value for name, value in row.items()
              if not isinstance(value, Mapping)} for row in rows]  # fmt: skip
    names = list(dict.fromkeys(name for row in plain for name in row))
    ends = [name for name in names if name in ENDS]
    others = [name for name in names if name not in ENDS]
    first = 1 + ("model" in names)
    columns = [*others[:first], *ends, *others[first:]]
    lines = table(plain, columns) if "model" in names else pairs(plain[0], columns)
    return "\n".join([*lines, *(line for part in _parts(rows[0]) for line in ("", *table(part)))])


def _parts(row: Row) -> list[list[Row]]:
    """What a row holds apart: parts of it that have the same figures are one table."""
    held = {name: value for name, value in row.items() if isinstance(value, Mapping) and value}
    apart = {name: value for name, value in held.items() if all(isinstance(one, Mapping) for one in value.values())}
    found: list[list[Row]] = [[{name: kind, **one} for kind, one in value.items()] for name, value in apart.items()]
    rest: list[Row] = [{"of": name, **value} for name, value in held.items() if name not in apart]
    return [*found, rest] if rest else found


def _short(model: object) -> str:
    """A model's name, of a directory the last two folders."""
    return str(Path(*Path(str(model)).parts[-2:]))
