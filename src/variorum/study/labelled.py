"""A bake-off: arms that learn one's own labelled rows, each in its way, judged on rows held out; of any kind of task.

Every arm is given the same rows in the same order; the rows of a document, where the table names documents, fall on one
side. What an answer costs is measured beside what it is worth. See :mod:`variorum.study.ways` for how an arm is said.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from variorum.errors import NotFound, UsageError
from variorum.study import ways
from variorum.study.analysis import Truth
from variorum.study.cells import Cell, fingerprint
from variorum.study.corpora import DOMAINS, plain, snippets, spread, without_leaks
from variorum.study.design import Arm, Study, readings
from variorum.study.domain import groups
from variorum.study.judging import MACRO_F1, Classes, Judge, judged
from variorum.study.session import ANY, Declared, Limits, Page, declared_looks
from variorum.study.statistics import Claim, looks_of
from variorum.study.ways import WAYS, Lesson

NAME, BASELINE, SHIPPED = "bake-off", "baseline", "snippets"
TEST_SHARE = 5
"""One document in so many is held out."""
FEWEST = 20
"""Rows held out: an interval over fewer groups is too narrow."""
METRIC = MACRO_F1
JOB = "variorum.study.jobs:arm_cell"
TIMED = 40
"""Rows that are answered one by one, for the time that takes: of every arm's first seed."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows to learn from and to be judged on; ``groups`` of the latter for the jackknife.

    Attributes:
        kind: of the task. train, test: texts, or pairs of them, or sentences.
        train_labels, test_labels: what is right for each, as ``judge`` compares it.
        dropped: training rows that a row held out repeats.
    """

    where: str
    judge: Judge
    train: tuple[Any, ...]
    train_labels: tuple[Any, ...]
    test: tuple[Any, ...]
    test_labels: tuple[Any, ...]
    groups: tuple[int, ...]
    dropped: int = 0
    kind: str = "classify"

    @property
    def truth(self) -> Truth:
        """What the rows held out are judged by."""
        return Truth(labels=self.test_labels, groups=self.groups, judge=self.judge)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, where the task has such."""
        return self.judge.names if isinstance(self.judge, Classes) else ()


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A bake-off as it is asked for.

    Attributes:
        models: arms beside the baseline, each ``[TITLE: ][WAY:]MODEL``.
        epochs, learning_rate, max_length, precision: of every arm that learns.
    """

    models: tuple[str, ...]
    seeds: int = 5
    looks: tuple[int, ...] = ()
    epochs: int = 3
    learning_rate: float = 5e-5
    max_length: int | None = 128
    precision: Literal["float32", "bfloat16"] = "float32"

    @property
    def how(self) -> dict[str, Any]:
        """As estimators take it."""
        return {"epochs": self.epochs, "learning_rate": self.learning_rate, "max_length": self.max_length,
                "precision": self.precision}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Rows as they are asked for.

    Attributes:
        data: a table, or ``snippets``: the shipped ones, by their domain.
        names: of columns, by what they hold, where they are not the task's own.
        document: the column that says which rows belong together.
    """

    data: str
    kind: str = "classify"
    names: Mapping[str, str] = field(default_factory=dict)
    document: str | None = None


def shipped(*, train: int | None = None, test: int | None = None) -> Rows:
    """The rated snippets that come with variorum, by their domain; some of them, spread evenly."""
    learned, held, leaks = without_leaks(snippets())
    learned = learned if train is None else spread(learned, train)
    held = held if test is None else spread(held, test)
    return Rows(
        where="the shipped snippets", judge=Classes(DOMAINS), train=tuple(row.text for row in learned),
        train_labels=tuple(DOMAINS.index(row.domain) for row in learned), test=tuple(row.text for row in held),
        test_labels=tuple(DOMAINS.index(row.domain) for row in held),
        groups=tuple(groups([row.document for row in held])), dropped=leaks,
    )  # fmt: skip


def table(asked: Asked, *, say: Callable[[str], None] = lambda line: print(line, file=sys.stderr)) -> Rows:
    """A table of one's own; rows are held out by a hash of their document, or of themselves.

    Training rows that a held-out row repeats are dropped and counted, rows that cannot be used are told.

    Raises:
        UsageError: no such kind of bake-off, one class only, or too few rows. What reading a table raises.
    """
    from variorum.tasks import job
    from variorum.tasks.registry import task

    kind = task(asked.kind)()
    names = job.named(kind, asked.names)
    further = [asked.document] if asked.document else []
    usable = job.read(kind, asked.data, names, say, filled=True, further=further)
    judge, labels = judged(asked.kind, usable.X, usable.y)
    texts = [said(row) for row in usable.X]
    documents = [row.cells[asked.document] for row in usable.table.good] if asked.document else texts
    held = [i for i, name in enumerate(documents) if _hash(name) % TEST_SHARE == 0]
    left, tested = sorted({*range(len(texts))} - {*held}), {plain(texts[i]) for i in held}
    kept = [i for i in left if plain(texts[i]) not in tested]
    if len(held) < FEWEST or len(kept) < len(held):
        raise UsageError(
            f"{len(kept)} rows to learn from and {len(held)} held out", where=asked.data,
            remedy=f"a bake-off needs some {FEWEST * TEST_SHARE} rows",
        )  # fmt: skip
    return Rows(
        where=Path(asked.data).name, kind=asked.kind, judge=judge, train=tuple(usable.X[i] for i in kept),
        train_labels=tuple(labels[i] for i in kept), test=tuple(usable.X[i] for i in held),
        test_labels=tuple(labels[i] for i in held), groups=tuple(groups([documents[i] for i in held])),
        dropped=len(left) - len(kept),
    )  # fmt: skip


def rows(data: str, *, train: int | None = None, test: int | None = None) -> Rows:
    """The shipped snippets, so many of them, or a table with the columns text and label."""
    return shipped(train=train, test=test) if data == SHIPPED else table(Asked(data=data))


def declare(wanted: Wanted, rows: Rows, out: Path, *, limits: Limits = ANY, keep: bool = True) -> Declared:
    """Fix arms, rows, claims and cells: of every two arms, that the one named first beats the other.

    Raises:
        UsageError: no model, one named twice, a way that cannot do the task, or too few seeds. NotFound: no such model.
    """
    looks = looks_of(wanted.seeds, wanted.looks)
    arms, metric = _arms(wanted, rows), rows.judge.metric
    claims = tuple(
        Claim(name=f"{a.title} beats {b.title}", better=a.name, worse=b.name, metric=metric.name)
        for a, b in itertools.combinations((*arms[1:], arms[0]), 2)
    )
    cells = _cells(wanted, rows, arms)
    looks = declared_looks(out, cells, looks, keep=keep)
    study = Study(
        name=NAME, title=f"Which model for {rows.where}?", arms=arms, claims=claims, metric=metric, looks=looks,
        question="Which of these answers best, and what does an answer cost?", seeds=tuple(range(wanted.seeds)),
        budget=f"{len(rows.train):,} labelled rows, {wanted.epochs} epochs",
        items=f"{len(rows.test):,} rows held out, in {max(rows.groups) + 1} groups of documents",
        equal=("rows and their order, epochs, learning rate, length, rows held out",),
        unequal=(
            "parameters and seconds (in the table), and what each model was pretrained on",
            "the time of an answer is taken while another cell may run beside it (--workers 1 prevents that)",
            f"{rows.dropped} training rows that a held-out row repeats were dropped",
        ),
    )  # fmt: skip
    lead = f"Every figure is at this budget: {study.budget}, {wanted.seeds} seeds."
    page = Page(title=study.title, lead=lead, colophon=f"Rows: {rows.where}.")
    return Declared(
        out=out, studies=(study,), cells=cells, page=page, steps=wanted.epochs, truths={NAME: rows.truth},
        texts={NAME: [said(row) for row in rows.test]}, limits=limits,
    )  # fmt: skip


def said(row: Any) -> str:
    """A row as one text."""
    return row if isinstance(row, str) else " | ".join(row)


def _arms(wanted: Wanted, rows: Rows) -> tuple[Arm, ...]:
    """The baseline and the arms that are asked for, each with what sets its model apart from the one before it."""
    from variorum.tasks.baselines import baseline

    simple = baseline(rows.kind).name
    made = [Arm(name=BASELINE, title=simple.partition(" + ")[0], spec=None, note=f"{WAYS[BASELINE].note}; {simple}",
                seeded=False)]  # fmt: skip
    for number, asked in enumerate(wanted.models, 1):
        title, _, meant = asked.rpartition(": ")
        word, model = ways.read(meant)
        way, spec, before = WAYS[word], ways.spec_of(model), made[-1].spec
        way.check(rows.kind)
        made.append(Arm(
            name=f"model{number}", title=title or _titled(meant, model), spec=spec, note=f"{way.note}; {meant}",
            apparatus=() if before is None else readings(before.diff(spec)), seeded=way.seeded,
        ))  # fmt: skip
    titles = [arm.title for arm in made]
    if len(titles) < 2 or len(set(titles)) < len(titles):
        raise UsageError("a bake-off needs models, each named once", where="--models", remedy='say "NAME: MODEL"')
    return tuple(made)


def _titled(meant: str, model: str) -> str:
    """What an arm without a title is called: of a path its last part that says something."""
    parts = [part for part in Path(model).parts if part != "model"]
    return meant.removesuffix(model) + (parts[-1] if parts and Path(model).exists() else model)


def _cells(wanted: Wanted, rows: Rows, arms: Sequence[Arm]) -> tuple[Cell, ...]:
    data = fingerprint([rows.train, rows.train_labels, rows.test])
    cell = partial(Cell, study=NAME, data=data, threads=1, call=JOB)
    asked = [("baseline", ""), *(ways.read(one.rpartition(": ")[2]) for one in wanted.models)]

    def work(word: str, model: str, seed: int) -> dict[str, Any]:
        lesson = Lesson(kind=rows.kind, model=model, X=rows.train, y=rows.train_labels, classes=rows.classes,
                        seed=seed, how=wanted.how)  # fmt: skip
        return {"way": word, "lesson": lesson, "state": _content(model), "test": rows.test,
                "timed": 0 if seed else min(TIMED, len(rows.test))}  # fmt: skip

    return tuple(
        cell(arm=arm.name, seed=seed, work=work(word, model, seed), steps=WAYS[word].steps(len(rows.train), wanted.how))
        for seed in range(wanted.seeds)
        for arm, (word, model) in zip(arms, asked, strict=True)
        if arm.seeded or not seed
    )


def _content(model: str) -> str:
    """What a model's files are, so that another state of them is another cell."""
    from variorum.hub import locate

    try:
        place = locate(str(ways.place(model)))
    except (NotFound, UsageError):
        return ""  # made from nothing
    files = [place] if place.is_file() else sorted(place.glob("*.safetensors"))
    return fingerprint([f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files])


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
