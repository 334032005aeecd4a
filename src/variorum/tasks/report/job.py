"""From a table and trained directories to a report: what ``variorum report`` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sklearn.base import is_classifier

from variorum.tasks.baselines import BASELINES, baselines
from variorum.tasks.job import Rows, named, read
from variorum.tasks.registry import load
from variorum.tasks.report.findings import Context, Report, examine

if TYPE_CHECKING:
    from variorum.tasks.estimator import Estimator

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A report to be made.

    Attributes:
        models: directories that ``variorum train`` wrote, one for each seed, the first one for what is shown of one.
        data: labelled rows. names: of its columns, by what they hold, where these are others than in training.
        train: the rows that the models learned from; baselines learn from them too, and are audited beside ``data``.
        slices: columns by whose values rows are looked at apart.
        command: what a reader types to repeat it.
    """

    models: Sequence[Path]
    data: str | Path
    names: Mapping[str, str] = field(default_factory=dict)
    train: str | Path | None = None
    slices: Sequence[str] = ()
    command: str = ""


def report(asked: Asked, *, say: Say) -> Report:
    """Examine trained models on a table.

    Raises:
        UsageError: directories of different tasks.
        NotFound, DamagedFile: a file or column that is not there, or not one row that can be used.
    """
    models = [load(place) for place in asked.models]
    first, names = models[0], named(models[0], {**models[0].names_, **asked.names})
    rows = read(first, asked.data, names, say, further=asked.slices)
    learned = None if asked.train is None else read(first, asked.train, names, say, filled=True)
    context = Context(
        command=asked.command, slices={name: rows.table.column(name) for name in asked.slices},
        baselines={} if learned is None else _simple(first.kind, learned, rows),
        lines=[row.line for row in rows.table.good], audit=_noticed(first, rows, learned, names),
    )  # fmt: skip
    return examine(models, rows.X, rows.y, context)


def _simple(kind: str, learned: Rows, rows: Rows) -> dict[str, list[object]]:
    """What every simple model of this kind says of rows, after it learned from others."""
    found = baselines(kind) if kind in BASELINES else []
    return {one.name: list(one.fit(learned.X, learned.y).predict(rows.X)) for one in found}


def _noticed(model: Estimator, rows: Rows, learned: Rows | None, names: Mapping[str, str]) -> tuple[str, ...]:
    """What an audit says of the rows, or of those that were learned from with these beside them; it reads no pairs."""
    from variorum.tasks.audit.run import Columns, audit

    if len(model.columns.inputs) > 1:
        return ()
    label = names[model.columns.target] if is_classifier(model) else None
    looked = Columns(text=names[model.columns.inputs[0]], label=label)
    first, test = (rows, None) if learned is None else (learned, rows.table)
    found = audit(first.table, looked, test=test)
    return tuple(f"{one.severity.value}: {one.what} ({one.rows:,} rows)" for one in found.findings)
