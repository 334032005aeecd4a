"""From a table to a trained task and its figures: what ``variorum train``, ``predict`` and ``evaluate`` do.

Rows that cannot be used are told and keep their places. Figures are of rows that were neither learned from nor used to
choose anything, beside a baseline on the same rows.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from variorum.errors import DamagedFile, UsageError
from variorum.tasks import table
from variorum.tasks.baselines import BASELINES, baselines
from variorum.tasks.estimator import held_out
from variorum.tasks.metrics.intervals import Interval, difference, over_items, over_seeds
from variorum.tasks.profile import FEWEST
from variorum.tasks.registry import load, task

if TYPE_CHECKING:
    from variorum.tasks.estimator import Estimator
    from variorum.tasks.metrics.intervals import Figure
    from variorum.tasks.table import Table

Say = Callable[[str], None]
TEST_SHARE = 0.2
"""Of the rows, that nobody learns from."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kept:
    """What figures are of: the rows of ``test``, or a ``share`` of the data if absent; 0 for none."""

    test: str | Path | None = None
    share: float = TEST_SHARE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """A task to be trained.

    Attributes:
        kind: of the task.
        data: the rows.
        parameters: of the estimator.
        names: of columns, by what they hold; as the task calls them where none is given.
        kept: what the figures are of.
        add: a queue whose answered items are learned from too.
        weight: the column by which rows count, such as the confidence of labels that a model gave.
        seeds: how often it is trained, from the estimator's ``random_state`` on; the best by validation is kept.
    """

    kind: str
    data: str | Path
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    kept: Kept = dataclasses.field(default_factory=Kept)
    add: Path | None = None
    weight: str = ""
    seeds: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """What a task reads, what is right, and by how much it counts, a row each, and the table they are from."""

    X: list[Any]
    y: list[Any]
    table: Table
    weight: list[float] | None = None

    def picked(self, numbers: Sequence[int]) -> Rows:
        """Some of the rows."""
        weight = None if self.weight is None else [self.weight[i] for i in numbers]
        return dataclasses.replace(self, X=[self.X[i] for i in numbers], y=[self.y[i] for i in numbers], weight=weight)


def train(asked: Asked, out: Path, *, say: Say) -> list[dict[str, Any]]:
    """Train, save the best seed's model to ``out``, and give a row of figures for it and one for the baseline.

    Raises:
        UsageError: fewer than one seed, or ``out`` holds something else.
        NotFound, DamagedFile: a file or column that is not there, or not one row that can be used.
    """
    from variorum.checkpoint.writing import check_ours

    if asked.seeds < 1:
        raise UsageError(f"{asked.seeds} seeds train nothing", where="seeds", remedy="give 1 or more")
    check_ours(out)
    plain = task(asked.kind)(**asked.parameters)
    names = named(plain, asked.names)
    rows = read(plain, asked.data, names, say, filled=True, weight=asked.weight)
    learned, test = apart(plain, rows, asked.kept, names, say)
    if asked.add is not None:
        learned = _with_answered(plain, learned, asked.add, names, say)
    trained = [_fitted(asked, learned, seed, say) for seed in range(asked.seeds)]
    best = max(trained, key=lambda one: -np.inf if one.history_.score is None else one.history_.score)
    best.names_ = names
    found = [] if test is None else _figures(best, trained, learned, test, say)
    best.figures_ = {} if not found else dict(found[0])
    if test is not None and is_classifier(best) and len(test.X) >= FEWEST:
        best.observe(test.X)
    best.save(out)
    return found


def predict(
    directory: Path, data: str | Path, names: Mapping[str, str], *, device: str, say: Say
) -> list[dict[str, Any]]:
    """Every row of a table with its answer, in order; one that cannot be used has an ``error`` instead.

    Raises:
        NotFound, DamagedFile: as :func:`variorum.tasks.load` and :func:`variorum.tasks.table.read`.
    """
    estimator = load(directory, device=device)
    found, X = read_inputs(estimator, data, names, say)
    return found.answered(estimator.answers(X) if X else [])


def read_inputs(
    estimator: Estimator, data: str | Path, names: Mapping[str, str], say: Say
) -> tuple[Table, list[Any]]:  # fmt: skip
    """A table, and what the task reads of each of its rows that can be used; those that cannot are told.

    Raises:
        NotFound, DamagedFile: as :func:`variorum.tasks.table.read`.
    """
    known = named(estimator, {**estimator.names_, **names})
    columns = [known[role] for role in estimator.columns.inputs]
    found = table.read(data, columns, filled=())
    found.tell(say)
    return found, [_input(row.cells, columns) for row in found.good]


def evaluate(
    directory: Path, data: str | Path, names: Mapping[str, str], *, device: str, say: Say
) -> dict[str, Any]:  # fmt: skip
    """The figures of a trained task on labelled rows, the first with its interval over items.

    Raises:
        NotFound, DamagedFile: as :func:`predict`.
    """
    estimator = load(directory, device=device)
    rows = read(estimator, data, named(estimator, {**estimator.names_, **names}), say)
    figures = estimator.evaluate(rows.X, rows.y)
    if figures.get("unseen"):
        say(f"{figures['unseen']:,} rows have a label that was not learned; they count as wrong")
    interval = _interval(estimator.figures_on(rows.X, rows.y), len(rows.X))
    return figures | ({} if interval is None else {"low": interval.low, "high": interval.high})


def named(kind: Estimator, given: Mapping[str, str]) -> dict[str, str]:
    """The names of a task's columns, by what they hold.

    Raises:
        UsageError: a role that the task has not.
    """
    roles = (*kind.columns.inputs, *([kind.columns.target] if kind.columns.target else []))
    odd = next((role for role in given if role not in roles), None)
    if odd is not None:
        raise UsageError(f"{kind.kind} reads no {odd!r}", where="columns", remedy=f"it reads {', '.join(roles)}")
    return {role: given.get(role, role) for role in roles}


def read(
    kind: Estimator, data: str | Path, names: Mapping[str, str], say: Say, *, filled: bool = False,
    weight: str = "", further: Sequence[str] = (),
) -> Rows:  # fmt: skip
    """The labelled rows of a table that can be used; those that cannot are told.

    Args:
        kind: of task, fitted or not: which rows it can use is for it to say.
        names: of the columns by what they hold.
        filled: whether a row with any empty cell cannot be used; one without a target never can, if it needs one.
        weight: the column by which rows count; all alike without.
        further: columns that must be there too.

    Raises:
        NotFound: a file or column that is not there. DamagedFile: not one row can be used.
    """
    columns = [*names.values(), *([weight] if weight else []), *further]
    optional = [names[kind.columns.target]] if kind.columns.optional else []
    needed = columns if filled else [names[kind.columns.target]] if kind.columns.target else []
    found = table.read(data, columns, filled=[name for name in needed if name not in optional])
    inputs, targets, rows = [names[role] for role in kind.columns.inputs], [], []
    for row in found.rows:
        error, value = row.error, None
        if not error and kind.columns.target:
            try:
                value = kind.target(row.cells[names[kind.columns.target]])
                kind.check(_input(row.cells, inputs), value)
            except ValueError as wrong:
                error = str(wrong)
        rows.append(dataclasses.replace(row, error=error))
        targets.append(value)
    whole = dataclasses.replace(found, rows=tuple(rows))
    whole.tell(say)
    usable = [i for i, row in enumerate(rows) if not row.error]
    if not usable:
        raise DamagedFile("not one row can be used", where=whole.where, remedy="mend them")
    return Rows(
        X=[_input(rows[i].cells, inputs) for i in usable], y=[targets[i] for i in usable], table=whole,
        weight=[_weight(rows[i], weight, found.where) for i in usable] if weight else None,
    )  # fmt: skip


def _weight(row: table.Row, column: str, where: str) -> float:
    try:
        weight = float(row.cells[column])
    except ValueError:
        weight = -1.0
    if not 0 <= weight < float("inf"):
        raise DamagedFile(f"{row.cells[column]!r:.40} is no weight", where=f"{where}, line {row.line}",
                          remedy=f"give a number from 0 on as {column}")  # fmt: skip
    return weight


def _with_answered(kind: Estimator, rows: Rows, queue: Path, names: Mapping[str, str], say: Say) -> Rows:
    """The rows with the items of a queue that people have answered."""
    from variorum.tasks.queue import LABEL, Queue

    items = Queue(queue).answered()
    say(f"{len(items):,} answered items of {queue} are learned from too")
    inputs = [names[role] for role in kind.columns.inputs]
    for item in items:
        missing = [name for name in inputs if not isinstance(item.get(name), str)]
        if missing:
            raise DamagedFile(f"item {item['id']!r:.60} has no {missing[0]}", where=str(queue))
    return dataclasses.replace(
        rows,
        X=[*rows.X, *(_input(item, inputs) for item in items)],
        y=[*rows.y, *(kind.target(str(item[LABEL])) for item in items)],
        weight=None if rows.weight is None else [*rows.weight, *[1.0] * len(items)],
    )


def _input(cells: Mapping[str, str], columns: Sequence[str]) -> Any:
    given = tuple(cells[name] for name in columns)
    return given[0] if len(given) == 1 else given


def apart(
    kind: Estimator, rows: Rows, kept: Kept, names: Mapping[str, str], say: Say
) -> tuple[Rows, Rows | None]:  # fmt: skip
    """What is learned from, and what the figures are of: of the same rows always the same.

    Raises:
        UsageError: a share that is none. Further kinds as :func:`read`.
    """
    if kept.test is not None:
        return rows, read(kind, kept.test, names, say, filled=True)
    classes = rows.y if is_classifier(kind) else None
    learned, test = held_out(len(rows.X), kept.share, 0, classes)
    return rows.picked(learned), rows.picked(test) if test else None


def _fitted(asked: Asked, rows: Rows, seed: int, say: Say) -> Estimator:
    first = asked.parameters.get("random_state", 0)
    if asked.seeds > 1:
        say(f"seed {first + seed}")
    weights = {} if rows.weight is None else {"sample_weight": rows.weight}
    estimator = task(asked.kind)(**{**asked.parameters, "random_state": first + seed})
    with warnings.catch_warnings(record=True) as heard:
        estimator.fit(rows.X, rows.y, **weights)
    for line in dict.fromkeys(str(one.message) for one in heard if one.category is UserWarning):
        say(line)
    return estimator


def _interval(figures: Mapping[str, Figure], items: int) -> Interval | None:
    figure = next(iter(figures.values()), None)
    return None if figure is None else over_items(figure, items)


def _figures(
    best: Estimator, trained: Sequence[Estimator], learned: Rows, test: Rows, say: Say
) -> list[dict[str, Any]]:  # fmt: skip
    """A row for the model that is kept, with what the seeds say, and one for the baseline, if the task has any."""
    evaluated = [one.evaluate(test.X, test.y) for one in trained]
    figures = [one.figures_on(test.X, test.y) for one in trained]
    name, place = next(iter(evaluated[0])), list(trained).index(best)
    row: dict[str, Any] = {"model": best.model, **evaluated[place]}
    interval = _interval(figures[place], len(test.X))
    if interval is not None:
        row |= {"low": interval.low, "high": interval.high}
    if len(trained) > 1:
        seeds = over_seeds([np.nan if one[name] is None else one[name] for one in evaluated])
        row |= {"seeds": len(trained), "seed_mean": seeds.value, "seed_low": seeds.low, "seed_high": seeds.high}
    return [row, *_beside(name, figures, best, learned, test, say)]


def _beside(
    name: str, figures: Sequence[Mapping[str, Figure]], best: Estimator, learned: Rows, test: Rows, say: Say
) -> list[dict[str, Any]]:  # fmt: skip
    """A row for every baseline of the task, and whether the mean of the seeds' ``figures`` beats it."""
    if name not in figures[0] or best.kind not in BASELINES:
        return []

    def mean(counts: Any) -> Any:
        return np.mean([one[name](counts) for one in figures], axis=0)

    rows, right = [], best.right(test.X, test.y)
    for simple in baselines(best.kind):
        figure = best.figures(simple.fit(learned.X, learned.y).predict(test.X), right)[name]
        value = over_items(figure, len(test.X))
        gain = difference(mean, figure, len(test.X))
        say(_verdict(name, simple.name, gain))
        rows.append({"model": simple.name, name: value.value, "rows": len(test.X), "low": value.low,
                     "high": value.high, "beaten_by": gain.value, "from": gain.low, "to": gain.high})  # fmt: skip
    return rows


def _verdict(name: str, simple: str, gain: Interval) -> str:
    words = name.replace("_", " ")
    if np.isnan(gain.value):
        return f"the model is not compared with {simple}: {words} is not defined where every row is answered alike"
    between = f"{words} {gain.value:+.4f}, 95 % interval over items {gain.low:+.4f} to {gain.high:+.4f}"
    if gain.low > 0:
        return f"the model beats {simple}: {between}"
    if gain.high < 0:
        return f"the model is worse than {simple}: {between}"
    return f"the model does not beat {simple} for certain: {between}"
