"""The quickstart: two studies in one run of a few minutes, on the texts that the package ships.

`walk` and `domain` say what is compared, `session` carries it through.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from variorum.errors import UsageError
from variorum.study import corpora, domain, prepare, walk, words
from variorum.study.design import Study
from variorum.study.plan import FEWEST_STEPS
from variorum.study.session import ANY, Declared, Limits, Page, declared_looks
from variorum.study.statistics import MIN_SEEDS

DEFAULT_OUT = Path("study-quickstart")
SEEDS, STEPS = 3, 60
CURVE_POINTS = FEWEST_STEPS
TITLE = "What LLaMA changed, and what it buys here"
COLOPHON = (
    "The novels are Jane Austen's (1811–1818, public domain); the snippets are from C.J. Hutto and E. Gilbert, VADER, "
    "ICWSM 2014 (MIT licence)."
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the user may choose.

    Attributes:
        out: folder for data, cells, result and report. seeds: how many, from 0.
        steps: optimiser steps of each language model; classifiers take a fixed multiple.
    """

    out: Path = DEFAULT_OUT
    seeds: int = SEEDS
    steps: int = STEPS
    limits: Limits = ANY

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise UsageError("an interval needs at least 2 seeds, a verdict 3", where="--seeds")
        if self.steps < CURVE_POINTS:
            raise UsageError(f"at least {CURVE_POINTS} steps are needed", where="--steps")


def declare(settings: Settings, *, keep: bool = True) -> Declared:
    """Fix arms, data, claims and cells. Texts are tokenised here, once.

    Args:
        keep: write down the looks, so that they hold for every later run in this folder; a dry run does not.
    """
    chapters, rows, text, labelled = _data(settings.out / "data")
    seeds = tuple(range(settings.seeds))
    label_steps = domain.STEPS_PER_STEP * settings.steps

    def made(looks: tuple[int, ...]) -> Declared:
        first = walk.design(chapters=chapters, steps=settings.steps, seeds=seeds, looks=looks)
        second = domain.design(rows=rows, steps=label_steps, seeds=seeds, looks=looks)
        return Declared(
            out=settings.out,
            page=Page(title=TITLE, lead=_lead(first), colophon=COLOPHON),
            steps=settings.steps,
            limits=settings.limits,
            studies=(first, second),
            cells=(
                *walk.cells(first, text, steps=settings.steps, looks=_points(settings.steps)),
                *domain.cells(second, rows, labelled, steps=label_steps, looks=_points(label_steps)),
            ),
            truths={second.name: domain.truth(rows)},
            texts={second.name: [row.text for row in rows.test]},
        )

    looks = (max(settings.seeds, MIN_SEEDS),)
    fresh = made(looks)
    before = declared_looks(settings.out, fresh.cells, looks, keep=keep)
    return fresh if before == looks else made(before)


def _data(
    folder: Path,
) -> tuple[list[corpora.Chapter], domain.Rows, prepare.Prepared, prepare.Prepared]:
    chapters = corpora.chapters()
    train, test, leaks = corpora.without_leaks(corpora.snippets())
    train, test = corpora.spread(train, domain.TRAIN_ROWS), corpora.spread(test, domain.TEST_ROWS)
    text = prepare.novels(folder, chapters, vocab=walk.VOCAB, length=walk.LENGTH, windows=walk.WINDOWS)
    labelled = prepare.snippets(folder, train, test, vocab=domain.VOCAB, longest=domain.LENGTH)
    arrays = prepare.read(labelled)
    rows = domain.Rows(
        train=tuple(train),
        test=tuple(test),
        leaks=leaks,
        cut=(int(arrays["cut"][0]), int(arrays["cut"][1])),
        pad=int(arrays["wrapper"][0]),
    )
    return chapters, rows, text, labelled


def _points(steps: int) -> tuple[int, ...]:
    """Evenly spread points of the learning curve; the last one is the cell's own score."""
    return tuple(sorted({round(steps * i / CURVE_POINTS) for i in range(1, CURVE_POINTS)} - {0, steps}))


def _lead(study: Study) -> str:
    return (
        f"The budget is tiny: {study.budget}, {words.number(len(study.seeds))} seeds. A verdict here says what a "
        "change does in the first moments of training a model of under a million parameters. It says nothing about "
        "long runs: effects that need more training are expected to be undecided, and the curves show how far each arm "
        "had come."
    )
