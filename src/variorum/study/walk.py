"""The walk of the quickstart: nano causal models of Jane Austen's novels, from GPT-2 to LLaMA."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from variorum.study import corpora, nano
from variorum.study.cells import Cell
from variorum.study.design import Arm, Metric, Study
from variorum.study.prepare import Prepared
from variorum.study.statistics import Claim
from variorum.training.optimiser import Optimisation

NAME = "walk"
BATCH, LENGTH, VOCAB = 16, 128, 512
WINDOWS = 2
"""Windows scored in each held-out chapter."""
METRIC = Metric(name="held-out loss", unit="bits per byte", lower_is_better=True, by_item=True)


def arms() -> tuple[Arm, ...]:
    """GPT-2, and four changes on top of each other."""
    return nano.walk_arms(vocab=VOCAB, length=LENGTH)


def claims(walked: Sequence[Arm]) -> tuple[Claim, ...]:
    """Each change lowers the loss of the arm before it."""
    return tuple(
        Claim(
            name=f"{after.title.removeprefix('+ ')} lowers the held-out loss",
            better=after.name,
            worse=before.name,
            metric=METRIC.name,
        )
        for before, after in itertools.pairwise(walked)
    )


def recipe(steps: int) -> Optimisation:
    """One recipe for every arm; the rate was chosen on seeds that are not reported."""
    return Optimisation(steps=steps, rate=2e-3, warmup=steps // 10)


def design(*, chapters: Sequence[corpora.Chapter], steps: int, seeds: tuple[int, ...], looks: tuple[int, ...]) -> Study:
    """The study as it is declared before the run."""
    walked = arms()
    held_out = sum(chapter.held_out for chapter in chapters)
    tokens = steps * BATCH * LENGTH
    return Study(
        name=NAME,
        title="From GPT-2 to LLaMA, one change at a time",
        question="Does each change lower the held-out loss of a nano causal model of Jane Austen's novels?",
        arms=walked,
        claims=claims(walked),
        metric=METRIC,
        seeds=seeds,
        looks=looks,
        budget=f"{steps} steps × {BATCH} windows × {LENGTH} tokens = {tokens:,} tokens a cell",
        items=f"{held_out} held-out chapters, one in {corpora.HELD_OUT} of each of the six novels, {WINDOWS} windows "
        f"of {LENGTH} tokens each",
        equal=(
            f"data and its order, byte-level BPE of {VOCAB}, depth {nano.DEPTH}, width {nano.WIDTH}, optimiser, "
            "schedule, no dropout, and the draw behind the initial value of every parameter that two arms share",
        ),
        unequal=(
            "parameters and seconds per step (in the table)",
            nano.INITIAL_VALUES,
            nano.NOT_WALKED,
        ),
    )


def cells(study: Study, data: Prepared, *, steps: int, looks: tuple[int, ...]) -> tuple[Cell, ...]:
    """One cell per arm and seed.

    Args:
        looks: step counts at which the learning curve is scored.
    """
    settings = recipe(steps)
    return tuple(
        Cell(
            study=study.name,
            arm=arm.name,
            seed=seed,
            call="variorum.study.jobs:causal_cell",
            work={
                "spec": arm.spec,
                "data": data.path,
                "settings": settings,
                "seed": seed,
                "batch": BATCH,
                "looks": looks,
            },
            data=data.digest,
            steps=steps,
            threads=1,
        )
        for seed in study.seeds
        for arm in study.arms
    )
