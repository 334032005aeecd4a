"""A bake-off: arms that learn one's own labelled rows, each in its way, judged on rows held out; of any kind of task.

Every arm is given the same rows in the same order; the rows of a document, where the table names documents, fall on one
side. What an answer costs is measured beside what it is worth. See :mod:`variorum.study.ways` for how an arm is said.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from variorum.errors import NotFound, UsageError
from variorum.study import ways
from variorum.study.analysis import Truth
from variorum.study.cells import Cell, CellResult, fingerprint
from variorum.study.claims import claims_of, each_beats
from variorum.study.corpora import DOMAINS, places, plain, snippets, spread, without_leaks
from variorum.study.design import Arm, Study, readings
from variorum.study.domain import groups
from variorum.study.judging import MACRO_F1, Classes, Judge, judged
from variorum.study.lesson import Lesson
from variorum.study.session import ANY, THREADS, Declared, Limits, Page, Trials, declared_looks
from variorum.study.settling import OWN_SEED
from variorum.study.statistics import looks_of
from variorum.study.ways import WAYS
from variorum.training.rundir import place

NAME, BASELINE, SHIPPED = "bake-off", "baseline", "snippets"
TEST_SHARE = 5
"""One document in so many is held out."""
FEWEST = 20
"""Rows held out: an interval over fewer groups is too narrow."""
METRIC = MACRO_F1
JOB, TRIED = "variorum.study.jobs:arm_cell", "variorum.study.jobs:rated_cell"
PRICED = 40
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

    def some(self, count: int) -> Rows:
        """About so many rows, of both sides alike, spread evenly; all of them if there are no more."""
        share = min(1.0, count / (len(self.train) + len(self.test)))
        learned, held = (
            places([said(row) for row in side], round(share * len(side))) for side in (self.train, self.test)
        )
        numbers = {group: i for i, group in enumerate(sorted({self.groups[i] for i in held}))}
        return replace(
            self, train=tuple(self.train[i] for i in learned), test=tuple(self.test[i] for i in held),
            train_labels=tuple(self.train_labels[i] for i in learned),
            test_labels=tuple(self.test_labels[i] for i in held), groups=tuple(numbers[self.groups[i]] for i in held),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A bake-off as it is asked for.

    Attributes:
        models: arms beside the baseline, each ``[TITLE: ][WAY:]MODEL``.
        epochs, learning_rate, max_length, precision: of every arm that learns.
        rates: learning rates that every arm which learns tries on a part of the training rows, to keep the one that
            suits it; ``learning_rate`` for all if there are none.
        claims: as they are written; by default of every two arms, that the one named first beats the other.
    """

    models: tuple[str, ...]
    title: str = ""
    question: str = "Which of these answers best, and what does an answer cost?"
    claims: tuple[str, ...] = ()
    seeds: int = 5
    looks: tuple[int, ...] = ()
    epochs: int = 3
    learning_rate: float = 5e-5
    max_length: int | None = 128
    precision: Literal["float32", "bfloat16"] = "float32"
    rates: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len({*self.rates}) < len(self.rates) or any(rate <= 0 for rate in self.rates) or len(self.rates) == 1:
            raise UsageError("rates are several, each above 0 and named once", where="--rates")

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
    shared = kind.columns.shared
    documents = (
        [row.cells[asked.document] for row in usable.table.good] if asked.document
        else texts if shared is None
        else [row[shared] for row in usable.X]
    )  # fmt: skip
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
    """Fix arms, rows, claims and cells.

    Raises:
        UsageError: no model, one named twice, a way that cannot do the task, or too few seeds. NotFound: no such model.
    """
    design = _Design(wanted=wanted, rows=rows, arms=_arms(wanted, rows), out=out, limits=limits, keep=keep)
    declared = design.declared({})
    if not wanted.rates:
        return declared
    tried = {(arm.name, rate): design.trial(arm, rate) for arm in design.arms if arm.seeded for rate in wanted.rates}

    def decide(results: Mapping[str, CellResult]) -> Declared:
        scores = {which: results[cell.key].items[0] for which, cell in tried.items() if cell.key in results}
        return design.declared(scores)

    return replace(declared, trials=Trials(cells=tuple(tried.values()), decide=decide))


@dataclass(frozen=True, kw_only=True)
class _Design:
    """A bake-off but for the learning rates."""

    wanted: Wanted
    rows: Rows
    arms: tuple[Arm, ...]
    out: Path
    limits: Limits
    keep: bool

    def declared(self, scores: Mapping[tuple[str, float], float]) -> Declared:
        """The study with each arm at the best of the rates that it tried, by arm and rate."""
        wanted, rows, arms, metric = self.wanted, self.rows, self.arms, self.rows.judge.metric
        best = {name: max((rate for arm, rate in scores if arm == name), key=lambda rate: scores[name, rate])
                for name in {arm for arm, _ in scores}}  # fmt: skip
        looks, cells = looks_of(wanted.seeds, wanted.looks), self._cells(best)
        told = "; ".join(f"{arm.title} {best[arm.name]:g}" for arm in arms if arm.name in best)
        unequal = [
            "parameters and seconds (in the table), and what each model was pretrained on",
            "the time of an answer is taken while another cell may run beside it (--workers 1 prevents that)",
            f"{rows.dropped} training rows that a held-out row repeats were dropped",
            *([f"learning rates, each the best of {', '.join(f'{rate:g}' for rate in wanted.rates)} on a fifth of the "
               f"training rows: {told}"] if told else []),
        ]  # fmt: skip
        study = Study(
            name=NAME, title=wanted.title or f"Which model for {rows.where}?", arms=arms, metric=metric,
            claims=claims_of(wanted.claims, arms, metric) or each_beats(_pairs(arms), metric),
            question=wanted.question, seeds=tuple(range(wanted.seeds)),
            looks=declared_looks(self.out, cells, looks, keep=self.keep),
            budget=f"{len(rows.train):,} labelled rows, {wanted.epochs} epochs",
            items=f"{len(rows.test):,} rows held out, in {max(rows.groups) + 1} groups of documents",
            equal=(f"rows and their order, epochs, {'rates tried' if wanted.rates else 'learning rate'}, length, rows "
                   "held out",),
            unequal=tuple(unequal),
        )  # fmt: skip
        lead = f"Every figure is at this budget: {study.budget}, {wanted.seeds} seeds."
        page = Page(title=study.title, lead=lead, colophon=f"Rows: {rows.where}.")
        return Declared(
            out=self.out, studies=(study,), cells=cells, page=page, steps=wanted.epochs, limits=self.limits,
            truths={NAME: rows.truth}, texts={NAME: [said(row) for row in rows.test]},
        )  # fmt: skip

    def trial(self, arm: Arm, rate: float) -> Cell:
        """An arm at one rate, taught by four fifths of the training rows and judged by the others."""
        rows = self.rows
        kept = [i for i in range(len(rows.train)) if i % TEST_SHARE]
        left = range(0, len(rows.train), TEST_SHARE)
        work = self._work(arm, OWN_SEED, rate, kept) | {
            "test": tuple(rows.train[i] for i in left),
            "truth": Truth(labels=tuple(rows.train_labels[i] for i in left), groups=(0,) * len(left), judge=rows.judge),
        }  # fmt: skip
        return Cell(study=NAME, arm=arm.name, seed=OWN_SEED, data=self._data, threads=THREADS, call=TRIED, work=work,
                    steps=self._steps(arm, len(kept)), apart=f"at rate {rate:g}")  # fmt: skip

    def _cells(self, best: Mapping[str, float]) -> tuple[Cell, ...]:
        every, test = range(len(self.rows.train)), self.rows.test
        return tuple(
            Cell(study=NAME, arm=arm.name, seed=seed, data=self._data, threads=THREADS, call=JOB,
                 steps=self._steps(arm, len(every)),
                 work=self._work(arm, seed, best.get(arm.name, self.wanted.learning_rate), every)
                 | {"test": test, "priced": 0 if seed else min(PRICED, len(test))})
            for seed in range(self.wanted.seeds) for arm in self.arms if arm.seeded or not seed
        )  # fmt: skip

    @property
    def _data(self) -> str:
        return fingerprint([self.rows.train, self.rows.train_labels, self.rows.test])

    def _way(self, arm: Arm) -> tuple[str, str]:
        """An arm's way and model."""
        place = self.arms.index(arm)
        return ways.read(self.wanted.models[place - 1].rpartition(": ")[2]) if place else (BASELINE, "")

    def _steps(self, arm: Arm, rows: int) -> int:
        return WAYS[self._way(arm)[0]].steps(rows, self.wanted.how)

    def _work(self, arm: Arm, seed: int, rate: float, picked: Sequence[int]) -> dict[str, Any]:
        """What a cell is told to learn."""
        (way, model), rows = self._way(arm), self.rows
        lesson = Lesson(
            kind=rows.kind, model=model, X=tuple(rows.train[i] for i in picked), classes=rows.classes, seed=seed,
            y=tuple(rows.train_labels[i] for i in picked), how={**self.wanted.how, "learning_rate": rate},
        )  # fmt: skip
        return {"way": way, "lesson": lesson, "state": _content(model)}


def _pairs(arms: Sequence[Arm]) -> Iterable[tuple[Arm, Arm]]:
    """Of every two arms the one named first before the other; the baseline is named last."""
    return itertools.combinations((*arms[1:], arms[0]), 2)


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


def _content(model: str) -> str:
    """What a model's files are, so that another state of them is another cell."""
    from variorum.hub import locate

    try:
        found = locate(str(place(model)))
    except (NotFound, UsageError):
        return ""  # made from nothing
    files = [found] if found.is_file() else sorted(found.glob("*.safetensors"))
    return fingerprint([f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files])


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
