"""``variorum study``: run a study and say where its report is."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from variorum.cli.output import chosen, emit, say
from variorum.cli.reading import Verbs

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


command = Verbs("Compare variants fairly, and report what each change buys.", {"quickstart": quickstart})
