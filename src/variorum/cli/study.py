"""``variorum study``: run a study and say where its report is."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from variorum.cli.output import chosen, emit, say
from variorum.cli.reading import Verbs
from variorum.errors import CheckFailed

if TYPE_CHECKING:
    from variorum.study.quickstart import Finding


def quickstart(
    *,
    out: Path = Path("study-quickstart"),
    seeds: int = 3,
    steps: int = 60,
    workers: int | None = None,
    time_limit: float | None = None,
    dry_run: bool = False,
) -> int:
    """Two small studies in a few minutes: GPT-2 to LLaMA one change at a time, and encoders against TF-IDF.

    The plan, measured from a few real steps, is printed first. Finished cells are kept: the same command goes on
    where an earlier one was stopped.

    Args:
        out: folder for cells, result.json and report.html.
        seeds: seeds of every arm; a verdict needs 3.
        steps: optimiser steps of each language model; classifiers take a fixed multiple.
        workers: cells side by side, one thread each; one per core unless given.
        time_limit: refuse a plan that may take more than so many minutes.
        dry_run: measure and print the plan, compute nothing.
    """
    from variorum.study import quickstart as job

    settings = job.Settings(
        out=out,
        seeds=seeds,
        steps=steps,
        workers=workers,
        time_limit=None if time_limit is None else 60 * time_limit,
    )
    again = _again(settings.out, seeds, steps)
    if dry_run:
        from variorum.study.plan import as_json, render

        plan = job.plan_only(settings)
        emit(as_json(plan), human=render(plan))
        return 0
    try:
        finding = job.run(settings)
    except (KeyboardInterrupt, SystemExit):
        say(f"\nstopped; finished cells are kept. To go on: {again}")
        raise
    return _shown(finding, out, again)


def _shown(finding: Finding, out: Path, again: str) -> int:
    from variorum.study import report, words
    from variorum.study.result import as_json

    page, result = report.write(finding, out, again)
    if chosen() == "human":
        lines = [text for outcome in finding.outcomes for text in (*words.table(outcome), "")]
        emit({}, human="\n".join([*lines, words.opening(finding.outcomes), "", f"report  {page}", f"result  {result}"]))
    else:
        emit(as_json(finding, again))
    if finding.failures:
        say(f"variorum: {len(finding.failures)} of {len(finding.plan.cells)} cells failed; to try them again: {again}")
        return 1
    return 0


def _again(out: Path, seeds: int, steps: int) -> str:
    """The command that goes on with this study, or repeats it."""
    words = ["variorum", "study", "quickstart", "--out", str(out), "--seeds", str(seeds), "--steps", str(steps)]
    return shlex.join(words)


EVERY = 16
"""Kinds of simulated study between two notes of progress."""


def honesty(*, studies: int = 2000, seed: int = 0) -> int:
    """Are verdicts honest? Simulate studies in which nothing is to be found, and count the verdicts.

    Seeds, items and what is left vary, each the most in turn; scores are normal, heavy-tailed, right or wrong, or
    macro-F1; there are one or four claims, and one or three looks. Exit 6 where more than 5 % of the studies of a kind
    give a verdict, or fewer than 95 % of their intervals hold the truth (macro-F1: 90 %), beyond chance.

    Args:
        studies: of each kind; 2,000 take a minute or two.
        seed: of the simulation.
    """
    from variorum.study.honesty import settings, simulate

    kinds = list(settings())
    rows, dishonest = [], 0
    for number, setting in enumerate(kinds, 1):
        found = simulate(setting, studies=studies, seed=seed)
        dishonest += not found.honest
        figures = {name: round(getattr(found, name), 4) for name in ("false", "most", "covered", "least")}
        rows.append(setting._asdict() | figures | {"honest": found.honest})
        if number % EVERY == 0:
            say(f"{number} of {len(kinds)} kinds of study")
    emit(rows, columns=list(rows[0]))
    if dishonest:
        raise CheckFailed(f"{dishonest} of {len(kinds)} kinds of study", where="honesty", remedy="see the last column")
    return 0


command = Verbs(
    "Compare variants fairly, and report what each change buys.", {"quickstart": quickstart, "honesty": honesty}
)
