"""The report: one self-contained page, no network, no script, readable on a phone; and the JSON beside it.

Everything shown is text or a drawing made here; all text is escaped by the template, and the page's own policy
forbids everything but its one style sheet.
"""

from __future__ import annotations

import itertools
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from variorum import __version__
from variorum.files import write_whole
from variorum.page import render as page_of
from variorum.study import drawn, words
from variorum.study.analysis import Outcome
from variorum.study.cells import code_digest
from variorum.study.design import Arm, Reading
from variorum.study.mistakes import answers, overlap
from variorum.study.plan import gib, level
from variorum.study.progress import clock
from variorum.study.result import as_json
from variorum.study.session import Finding

EXAMPLES = 4
"""Misread items shown of each kind."""
LONGEST_EXAMPLE = 220


def write(finding: Finding, folder: Path, command: str) -> tuple[Path, Path]:
    """Write ``report.html`` and ``result.json``; returns both paths.

    Args:
        command: what the reader types to repeat it.
    """
    page, result = folder / "report.html", folder / "result.json"
    write_whole(result, (json.dumps(as_json(finding, command), indent=1, ensure_ascii=False) + "\n").encode())
    write_whole(page, render(finding, command).encode())
    return page, result


def render(finding: Finding, command: str) -> str:
    """The page as text."""
    return page_of(
        "variorum.study",
        "report.html.j2",
        title=finding.declared.page.title,
        opening=words.opening(finding.outcomes),
        lead=finding.declared.page.lead,
        failures=finding.failures,
        studies=[_study(outcome, finding) for outcome in finding.outcomes],
        planned=_planned(finding),
        repeat=_repeat(finding, command),
        colophon=f"variorum {__version__}. {finding.declared.page.colophon}",
    )


def _study(outcome: Outcome, finding: Finding) -> dict[str, Any]:
    study = outcome.study
    return {
        "title": study.title,
        "question": study.question,
        "unit": study.metric.unit,
        "level": f"{1 - study.alpha:.2%}",
        "level_note": level(study),
        "forest": drawn.forest(outcome),
        "lines": [words.line(study, judgement) for judgement in outcome.judgements],
        "unjudged": [claim.name for claim in outcome.unjudged],
        "curves": drawn.curves(outcome),
        "fronts": drawn.fronts(outcome),
        "table": _table(outcome),
        "arms": [_arm(arm) for arm in study.arms],
        "errors": _errors(outcome, finding),
        "budget": study.budget,
        "scored": study.items,
        "seeds": ", ".join(map(str, study.seeds)) + f"; read at {words.either(study.looks)} seeds",
        "equal": study.equal,
        "unequal": study.unequal,
        "missing": ", ".join(outcome.missing),
    }


def _table(outcome: Outcome) -> dict[str, Any]:
    study, metric = outcome.study, outcome.study.metric
    classes = list(outcome.figures[0].by_class) if outcome.figures else []
    costed = any(one.costs for one in outcome.figures)
    rows = []
    for figure in outcome.figures:
        result = next(r for (name, _), r in outcome.results.items() if name == figure.arm)
        each = " · ".join(metric.shown(v) for v in figure.by_seed.values())
        price = words.costs(figure.costs) if figure.costs else ("–",) * len(words.COSTS)
        rows.append([
            study.arm(figure.arm).title,
            metric.shown(figure.mean),
            each if study.arm(figure.arm).seeded else "no seeds",
            *(f"{100 * v:.1f}" for v in figure.by_class.values()),
            f"{result.facts['parameters']:,}",
            *((*price, words.fronts(outcome, figure.arm) or "–") if costed
              else (f"{drawn.seconds(outcome, figure.arm):.1f}",)),
        ])  # fmt: skip
    costs = [*words.COSTS, "on the front"] if costed else ["training s"]
    head = ["Arm", metric.unit if metric.by_item else metric.name, "each seed", *classes, "parameters", *costs]
    note = f"Columns named {words.listing(classes)} hold the F1 of each." if classes else ""
    return {"head": head, "rows": rows, "note": note}


def _arm(arm: Arm) -> dict[str, Any]:
    grouped = itertools.groupby(arm.apparatus, key=lambda reading: reading.why)
    groups: dict[str, list[Reading]] = {}
    for why, readings in grouped:
        groups.setdefault(why, []).extend(readings)
    return {
        "title": arm.title,
        "note": arm.note,
        "groups": [{"why": why if len(groups) > 1 else "", "readings": readings} for why, readings in groups.items()],
    }


def _errors(outcome: Outcome, finding: Finding) -> dict[str, Any] | None:
    """What arms miss alike: in a sentence, arm by arm, and in examples."""
    found = overlap(outcome)
    if found is None:
        return None
    study, seed = outcome.study, outcome.study.seeds[0]
    titles = [study.arm(arm).title for arm in found.missed]
    best = study.arm(max(outcome.figures, key=lambda one: one.mean).arm)
    count = f"{len(found.by_all)} of {found.items:,} test items ({len(found.by_all) / found.items:.1%})"
    cells = {a: {b: f"{share:.0%}" for b, share in row.items()} for a, row in found.shared.items()}
    return {
        "sentence": f"{count} are misread by {words.listing(titles)} alike (seed {seed}).",
        "head": ["of the errors of", "errors", *(f"also by {title}" for title in titles)],
        "rows": [
            [study.arm(a).title, f"{count:,}", *(cells.get(a, {}).get(b, "–") for b in found.missed)]
            for a, count in found.missed.items()
        ] if len(titles) > 1 else [],
        "examples": [
            {"head": head, "items": [_example(outcome, finding, i) for i in places[:EXAMPLES]]}
            for head, places in (("Missed by all", found.by_all), (f"Missed by {best.title} alone", found.by_best))
            if places
        ],
    }  # fmt: skip


def _example(outcome: Outcome, finding: Finding, item: int) -> dict[str, str]:
    study, truth = outcome.study, outcome.truth
    assert truth is not None
    said = {study.arm(arm).title: truth.judge.said(given[item]) for arm, given in answers(outcome).items()}
    return {
        "text": _cut(finding.declared.texts[study.name][item]), "truth": _cut(truth.judge.said(truth.labels[item])),
        "readings": words.listing(_readings({arm: _cut(text) for arm, text in said.items()})),
    }  # fmt: skip


def _readings(by_arm: Mapping[str, str]) -> list[str]:
    """Each class once, with the arms that read it."""
    classes = dict.fromkeys(by_arm.values())
    return [f"{name} by {words.listing([arm for arm, read in by_arm.items() if read == name])}" for name in classes]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_EXAMPLE else text[:LONGEST_EXAMPLE].rsplit(" ", 1)[0] + " …"


def _planned(finding: Finding) -> dict[str, Any] | None:
    """What the plan foretold beside what happened; ``None`` where nothing had to be computed."""
    plan = finding.plan
    if not plan.measured:
        return None
    low, high = plan.band
    rows = []
    for outcome in finding.outcomes:
        for arm in outcome.study.arms:
            told = plan.measured.get((outcome.study.name, arm.name))
            ran = [one for (name, _), one in outcome.results.items() if name == arm.name]
            if told is None or not ran:
                continue
            steps = next(cell.steps for cell in plan.cells if (cell.study, cell.arm) == (outcome.study.name, arm.name))
            rows.append([
                arm.title, f"{told.seconds(steps):.1f}", f"{sum(one.facts['seconds'] for one in ran) / len(ran):.1f}",
                gib(told.peak_bytes), gib(max(one.facts["peak_bytes"] for one in ran)),
            ])  # fmt: skip
    held = "inside" if low <= finding.seconds <= high else "outside"
    return {
        "sentence": f"Foretold were {clock(low)} to {clock(high)} and {gib(plan.memory)}; it took "
        f"{clock(finding.seconds)}, {held} the band, and {gib(finding.memory)}.",
        "head": ["Arm", "s a cell, foretold", "taken", "memory, foretold", "at most"],
        "rows": rows,
    }


def _repeat(finding: Finding, command: str) -> dict[str, Any]:
    results = {(o.study.name, arm, seed): r for o in finding.outcomes for (arm, seed), r in o.results.items()}
    some: Mapping[str, Any] = next(iter(results.values())).facts
    facts = [
        ("variorum", __version__),
        ("torch", some["torch"]),
        ("Python", some["python"]),
        ("Machine", f"{platform.system()} {platform.machine()}, {some['cpu']}, {some['threads']} thread a cell"),
        ("Side by side", f"{finding.plan.workers} cells"),
        ("Code", f"sha256 {code_digest()[:16]}"),
    ]
    cells = [
        {
            "name": cell.name,
            "seconds": f"{results[cell.study, cell.arm, cell.seed].facts['seconds']:.1f}",
            "key": cell.key[:16],
        }
        for cell in finding.declared.cells
        if (cell.study, cell.arm, cell.seed) in results
    ]
    return {"command": command, "facts": facts, "cells": cells}
