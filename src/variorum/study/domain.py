"""The other half of the quickstart: which domain is a snippet from? TF-IDF, nano BERT, nano ModernBERT."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from variorum.study import nano
from variorum.study.analysis import Truth
from variorum.study.cells import Cell
from variorum.study.corpora import DOMAINS, Snippet
from variorum.study.design import Arm, Study
from variorum.study.judging import MACRO_F1, Classes
from variorum.study.prepare import Prepared
from variorum.study.statistics import Claim
from variorum.tasks.baselines import linear as baseline
from variorum.training.optimiser import Optimisation

NAME = "domain"
TRAIN_ROWS, TEST_ROWS = 6000, 2400
BATCH, LENGTH, VOCAB = 32, 64, 2048
STEPS_PER_STEP = 4
"""Steps of a classifier for each step of a language model: its steps are that much cheaper."""
CURVE_ROWS = 600
"""Test rows that the learning curve is taken on."""
JACKKNIFE_GROUPS = 60
METRIC = MACRO_F1
TFIDF = Arm(name="tfidf", title="TF-IDF baseline", spec=None, note=baseline.NAME, seeded=False)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Labelled rows, and what was done to them: training rows dropped as leaks, rows cut for the encoders."""

    train: tuple[Snippet, ...]
    test: tuple[Snippet, ...]
    leaks: int
    cut: tuple[int, int]
    pad: int


def arms(pad: int) -> tuple[Arm, ...]:
    """The baseline, then the encoders."""
    return (TFIDF, *nano.encoder_arms(vocab=VOCAB, length=LENGTH, labels=len(DOMAINS), pad=pad))


def claims(compared: Sequence[Arm]) -> tuple[Claim, ...]:
    """Each encoder beats the baseline, and the later one beats the earlier."""
    tfidf, bert, modern = compared
    return tuple(
        Claim(name=f"{a.title} beats {b.title}", better=a.name, worse=b.name, metric=METRIC.name)
        for a, b in ((bert, tfidf), (modern, tfidf), (modern, bert))
    )


def recipe(steps: int) -> Optimisation:
    """One recipe for both encoders; the rate was chosen on seeds that are not reported."""
    return Optimisation(
        steps=steps, rate=1e-3, warmup=steps // 10, decay="linear", weight_decay=0.01, betas=(0.9, 0.98)
    )


def design(*, rows: Rows, steps: int, seeds: tuple[int, ...], looks: tuple[int, ...]) -> Study:
    """The study as it is declared before the run."""
    compared = arms(rows.pad)
    train, test = len(rows.train), len(rows.test)
    return Study(
        name=NAME,
        title="Which domain is this from?",
        question="Editorial, movie review, product review or tweet: do nano encoders trained on labels beat TF-IDF?",
        arms=compared,
        claims=claims(compared),
        metric=METRIC,
        seeds=seeds,
        looks=looks,
        budget=f"{train:,} labelled snippets; encoders take {steps} steps of {BATCH}",
        items=f"{test:,} snippets from other documents, in {JACKKNIFE_GROUPS} groups of documents",
        curve_note=f" (on {CURVE_ROWS} of the test rows)",
        equal=(
            f"labelled rows, test rows; between encoders also data order, byte-level BPE of {VOCAB:,}, depth "
            f"{nano.DEPTH}, width {nano.WIDTH}, optimiser, schedule, no dropout",
        ),
        unequal=(
            "TF-IDF reads whole words and trains to convergence in about a second; the encoders differ in parameters",
            f"{sum(rows.cut):,} of {train + test:,} rows are cut to {LENGTH} tokens for the encoders ({rows.cut[1]:,} "
            f"of them test rows); {rows.leaks} training rows with a test row's text were dropped",
        ),
    )


def cells(study: Study, rows: Rows, data: Prepared, *, steps: int, looks: tuple[int, ...]) -> tuple[Cell, ...]:
    """One cell for the baseline, one per encoder and seed.

    Args:
        looks: step counts at which the learning curve is scored.
    """
    cell = partial(Cell, study=study.name, data=data.digest, threads=1)
    words = {
        "train": [row.text for row in rows.train],
        "labels": [DOMAINS.index(row.domain) for row in rows.train],
        "test": [row.text for row in rows.test],
    }
    work = {
        "data": data.path,
        "settings": recipe(steps),
        "batch": BATCH,
        "looks": looks,
        "curve_rows": CURVE_ROWS,
        "classes": len(DOMAINS),
        "pad": rows.pad,
    }
    return (
        cell(arm=TFIDF.name, seed=study.seeds[0], call="variorum.study.jobs:baseline_cell", work=words, steps=1),
        *(
            cell(
                arm=arm.name,
                seed=seed,
                call="variorum.study.jobs:label_cell",
                work={**work, "spec": arm.spec, "seed": seed},
                steps=steps,
            )
            for seed in study.seeds
            for arm in study.arms
            if arm.seeded
        ),
    )


def truth(rows: Rows) -> Truth:
    """True classes of the test rows, and their jackknife groups."""
    return Truth(
        labels=[DOMAINS.index(row.domain) for row in rows.test],
        groups=groups([row.document for row in rows.test]),
        judge=Classes(DOMAINS),
    )


def groups(documents: Sequence[str]) -> list[int]:
    """Jackknife groups: all snippets of a document together, documents spread by a hash, no group empty."""
    picked = [
        int.from_bytes(hashlib.sha256(name.encode()).digest()[1:5], "big") % JACKKNIFE_GROUPS for name in documents
    ]
    place = {group: i for i, group in enumerate(sorted(set(picked)))}
    return [place[group] for group in picked]
