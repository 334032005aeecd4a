"""A bake-off: models fine-tuned on one's own labelled rows, beside TF-IDF, judged on rows held out.

Every model reads the same rows in the same order for as many epochs; the rows of a document, where the table names
documents, fall on one side. What an answer costs is measured beside what it is worth.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from variorum.errors import UsageError
from variorum.study.analysis import Truth
from variorum.study.cells import Cell, fingerprint
from variorum.study.corpora import DOMAINS, plain, snippets, spread, without_leaks
from variorum.study.design import Arm, Metric, Study
from variorum.study.domain import JACKKNIFE_GROUPS, groups
from variorum.study.session import ANY, Declared, Limits, Page, declared_looks
from variorum.study.statistics import Claim, looks_of
from variorum.tasks.baselines import linear

NAME, TFIDF, SHIPPED = "bake-off", "tfidf", "snippets"
TEST_SHARE = 5
"""One document in so many is held out."""
METRIC = Metric(name="macro-F1", unit="points", lower_is_better=False, by_item=False, scale=100, digits=1)
JOB, BASELINE = "variorum.study.jobs:classifier_cell", "variorum.study.jobs:baseline_cell"


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Texts and class ids to learn from and to be judged on; ``groups`` of the latter for the jackknife."""

    where: str
    classes: tuple[str, ...]
    train: tuple[str, ...]
    train_labels: tuple[int, ...]
    test: tuple[str, ...]
    test_labels: tuple[int, ...]
    groups: tuple[int, ...]
    dropped: int = 0

    @property
    def truth(self) -> Truth:
        """What the rows held out are judged by."""
        return Truth(labels=self.test_labels, groups=self.groups, classes=self.classes)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A bake-off as it is asked for.

    Attributes:
        models: directories, cached names, ``nano`` and the like, as the tasks take them, beside TF-IDF.
        epochs, learning_rate, max_length: of every model.
    """

    models: tuple[str, ...]
    seeds: int = 5
    looks: tuple[int, ...] = ()
    epochs: int = 3
    learning_rate: float = 5e-5
    max_length: int | None = 128


def shipped(*, train: int | None = None, test: int | None = None) -> Rows:
    """The rated snippets that come with variorum, by their domain; some of them, spread evenly."""
    learned, held, leaks = without_leaks(snippets())
    learned = learned if train is None else spread(learned, train)
    held = held if test is None else spread(held, test)
    return Rows(
        where="the shipped snippets", classes=DOMAINS, train=tuple(row.text for row in learned),
        train_labels=tuple(DOMAINS.index(row.domain) for row in learned), test=tuple(row.text for row in held),
        test_labels=tuple(DOMAINS.index(row.domain) for row in held),
        groups=tuple(groups([row.document for row in held])), dropped=leaks,
    )  # fmt: skip


def table(path: str, *, text: str, label: str, document: str | None = None) -> Rows:
    """A table of one's own; rows are held out by a hash of their document, or of their text.

    Training rows with the text of a held-out row are dropped and counted.

    Raises:
        UsageError: one class only, or too few rows. What reading a table raises.
    """
    from variorum.tasks.labels import LabelSet
    from variorum.tasks.table import read

    needed = [text, label, *([document] if document else [])]
    good = read(path, needed, filled=needed).good
    names = LabelSet.of(row.cells[label] for row in good)
    documents = [row.cells[document or text] for row in good]
    held = {i for i, name in enumerate(documents) if _hash(name) % TEST_SHARE == 0}
    tested = {plain(good[i].cells[text]) for i in held}
    learned = [i for i in range(len(good)) if i not in held]
    kept = [i for i in learned if plain(good[i].cells[text]) not in tested]
    if len(names) < 2 or len(held) < JACKKNIFE_GROUPS or len(kept) < len(held):
        raise UsageError(
            f"{len(kept)} rows to learn from and {len(held)} held out, of {len(names)} classes", where=path,
            remedy=f"a bake-off needs two classes and some {JACKKNIFE_GROUPS * TEST_SHARE} rows",
        )  # fmt: skip
    ids = names.ids([row.cells[label] for row in good])
    judged = sorted(held)
    return Rows(
        where=Path(path).name, classes=names.names, train=tuple(good[i].cells[text] for i in kept),
        train_labels=tuple(ids[i] for i in kept), test=tuple(good[i].cells[text] for i in judged),
        test_labels=tuple(ids[i] for i in judged), groups=tuple(groups([documents[i] for i in judged])),
        dropped=len(learned) - len(kept),
    )  # fmt: skip


def rows(data: str, *, train: int | None = None, test: int | None = None) -> Rows:
    """The shipped snippets, so many of them, or a table with the columns text and label."""
    return shipped(train=train, test=test) if data == SHIPPED else table(data, text="text", label="label")


def declare(wanted: Wanted, rows: Rows, out: Path, *, limits: Limits = ANY, keep: bool = True) -> Declared:
    """Fix arms, rows, claims and cells: each model beats TF-IDF, and the first model each other one.

    Raises:
        UsageError: no model, one named twice, or too few seeds.
    """
    looks = looks_of(wanted.seeds, wanted.looks)
    if not wanted.models or len(set(wanted.models)) < len(wanted.models):
        raise UsageError("a bake-off needs models, each named once", where="--models")
    baseline = Arm(name=TFIDF, title="TF-IDF baseline", spec=None, note=linear.NAME, seeded=False)
    arms = (baseline, *(_arm(reference, i) for i, reference in enumerate(wanted.models)))
    pairs = [(arm, baseline) for arm in arms[1:]] + [(arms[1], arm) for arm in arms[2:]]
    claims = tuple(
        Claim(name=f"{a.title} beats {b.title}", better=a.name, worse=b.name, metric=METRIC.name) for a, b in pairs
    )
    seeds, cells = tuple(range(wanted.seeds)), _cells(wanted, rows, arms)
    looks = declared_looks(out, cells, looks, keep=keep)
    study = Study(
        name=NAME, title=f"Which model for {rows.where}?", arms=arms, claims=claims, metric=METRIC, seeds=seeds,
        question="Which of these models names the classes best, and is it worth more than TF-IDF?", looks=looks,
        budget=f"{len(rows.train):,} labelled rows, {wanted.epochs} epochs",
        items=f"{len(rows.test):,} rows held out, in {max(rows.groups) + 1} groups of documents",
        equal=("rows and their order, epochs, learning rate, length, rows held out",),
        unequal=(
            "parameters and seconds (in the table), and what each model was pretrained on",
            f"{rows.dropped} training rows with a held-out row's text were dropped",
        ),
    )  # fmt: skip
    lead = f"Every figure is at this budget: {study.budget}, {wanted.seeds} seeds."
    page = Page(title=study.title, lead=lead, colophon=f"Rows: {rows.where}.")
    return Declared(
        out=out, studies=(study,), cells=cells, page=page, steps=wanted.epochs, truths={NAME: rows.truth},
        texts={NAME: rows.test}, limits=limits,
    )  # fmt: skip


def _arm(reference: str, number: int) -> Arm:
    path = Path(reference)
    title = path.name if path.is_dir() else reference
    return Arm(name=f"model{number + 1}", title=title, spec=None, note=reference)


def _cells(wanted: Wanted, rows: Rows, arms: Sequence[Arm]) -> tuple[Cell, ...]:
    train, test = list(rows.train), list(rows.test)
    cell = partial(Cell, study=NAME, data=fingerprint([train, rows.train_labels, test]), threads=1)
    words: Mapping[str, Any] = {"train": train, "labels": list(rows.train_labels), "test": test}
    how = {"epochs": wanted.epochs, "learning_rate": wanted.learning_rate, "max_length": wanted.max_length}
    steps = wanted.epochs * -(-len(train) // 32)
    return (
        cell(arm=TFIDF, seed=0, call=BASELINE, work=words, steps=1),
        *(
            cell(arm=arm.name, seed=seed, call=JOB, steps=steps,
                 work={**words, "model": arm.note, "state": _content(arm.note), "seed": seed, "how": how})
            for seed in range(wanted.seeds) for arm in arms[1:]
        ),
    )  # fmt: skip


def _content(reference: str) -> str:
    """What a directory's weights are, so that another state of it is another cell."""
    path = Path(reference)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else []
    return fingerprint([f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files])


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
