"""The report: one self-contained page, no network, no script, readable on a phone; and the JSON beside it.

Everything shown is text or a drawing made here; all text is escaped by the template, and the page's own policy
forbids everything but its one style sheet.
"""

from __future__ import annotations

import itertools
import json
import platform
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from variorum import __version__
from variorum.page import charts
from variorum.page import render as page_of
from variorum.study import words
from variorum.study.analysis import Outcome
from variorum.study.cells import code_digest
from variorum.study.design import Arm, Reading, Study
from variorum.study.files import write_whole
from variorum.study.plan import level
from variorum.study.result import as_json
from variorum.study.session import Finding

EXAMPLES = 6
"""Misread items shown."""
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
        "forest": _forest(outcome),
        "lines": [words.line(study, judgement) for judgement in outcome.judgements],
        "unjudged": [claim.name for claim in outcome.unjudged],
        "curves": _curves(outcome),
        "front": _front(outcome),
        "front_caption": _front_caption(study),
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


def _forest(outcome: Outcome) -> object:
    study, scale = outcome.study, outcome.study.metric.scale
    if not outcome.judgements:
        return ""
    intervals = [
        charts.Interval(
            name=j.claim.name,
            verdict=j.verdict,
            gain=j.gain * scale,
            low=j.low * scale,
            high=j.high * scale,
            by_seed=tuple(v * scale for v in j.by_seed),
        )
        for j in outcome.judgements
    ]
    return charts.both(
        lambda width: charts.forest(
            intervals,
            width=width,
            margin=0.0,
            x_label=f"gain, {study.metric.unit}",
            show=lambda value: f"{value:+.{study.metric.digits}f}",
            title=f"Intervals of the claims of “{study.title}”",
        )
    )


def _tones(study: Study) -> dict[str, int]:
    return {arm.name: i % 6 for i, arm in enumerate(study.arms)}


def _curves(outcome: Outcome) -> list[dict[str, object]]:
    study, metric = outcome.study, outcome.study.metric
    first = study.arms[0]
    scored = [_series(outcome, arm) for arm in study.arms if arm.seeded]
    drawn = [series for series in scored if series is not None]
    if not drawn:
        return []
    label = f"{metric.name}, {metric.unit}"
    figures: list[dict[str, object]] = [
        {
            "drawing": charts.both(
                partial(_drawn, series=drawn, x_label="steps", y_label=label, title=f"Learning curves: {label}")
            ),
            "caption": f"The {metric.name} as training goes on{study.curve_note}: mean of the seeds, and their range.",
        }
    ]
    if metric.by_item and first.seeded:
        gains = [_series(outcome, arm, against=first.name) for arm in study.arms[1:]]
        shown = [series for series in gains if series is not None]
        label = f"gain over {first.title}, {metric.unit}"
        if not shown:
            return figures
        figures.append(
            {
                "drawing": charts.both(
                    partial(
                        _drawn,
                        series=shown,
                        x_label="steps",
                        y_label=label,
                        title=f"Gain over {first.title}",
                        zero=True,
                    )
                ),
                "caption": f"The same runs as a paired gain over {first.title} at the same step and seed.",
            }
        )
    return figures


def _drawn(width: int, *, series: Sequence[charts.Series], **labels: Any) -> Markup:
    return charts.curves(series, width=width, **labels)


def _series(outcome: Outcome, arm: Arm, against: str | None = None) -> charts.Series | None:
    """An arm's curve over seeds; ``against`` another arm, the paired gain."""
    metric = outcome.study.metric
    seeds = [
        s
        for s in outcome.study.seeds
        if (arm.name, s) in outcome.results and (against is None or (against, s) in outcome.results)
    ]
    if not seeds:
        return None
    points = []
    for i, (step, _) in enumerate(outcome.results[arm.name, seeds[0]].curve):
        values = [outcome.results[arm.name, seed].curve[i][1] for seed in seeds]
        if against is not None:
            sign = 1 if metric.lower_is_better else -1
            values = [sign * (outcome.results[against, s].curve[i][1] - v) for s, v in zip(seeds, values, strict=True)]
        values = [v * metric.scale for v in values]
        points.append((float(step), sum(values) / len(values), min(values), max(values)))
    if not points:
        return None
    return charts.Series(name=arm.title, tone=_tones(outcome.study)[arm.name], points=tuple(points))


def _seconds(outcome: Outcome, arm: str) -> float:
    """Training seconds of a cell of this arm, mean over seeds."""
    found = [float(r.facts["train_seconds"]) for (name, _), r in outcome.results.items() if name == arm]
    return sum(found) / len(found)


def _front(outcome: Outcome) -> object:
    metric, tones = outcome.study.metric, _tones(outcome.study)
    points = [
        charts.Point(
            name=outcome.study.arm(figure.arm).title,
            tone=tones[figure.arm],
            x=_seconds(outcome, figure.arm),
            y=figure.mean * metric.scale,
            low=min(figure.by_seed.values()) * metric.scale,
            high=max(figure.by_seed.values()) * metric.scale,
        )
        for figure in outcome.figures
    ]
    if not points:
        return ""
    return charts.both(
        partial(
            _front_drawn,
            points=points,
            x_label="training seconds of one cell, one thread",
            y_label=f"{metric.name}, {metric.unit}",
            title="Quality and cost",
        )
    )


def _front_drawn(width: int, *, points: Sequence[charts.Point], **labels: Any) -> Markup:
    return charts.front(points, width=width, **labels)


def _front_caption(study: Study) -> str:
    side = "lower" if study.metric.lower_is_better else "upper"
    return (
        f"Towards the {side} left is better and cheaper. Whiskers are the range over seeds; seconds are this machine's."
    )


def _table(outcome: Outcome) -> dict[str, Any]:
    study, metric = outcome.study, outcome.study.metric
    classes = outcome.truth.classes if outcome.truth else ()
    rows = []
    for figure in outcome.figures:
        result = next(r for (name, _), r in outcome.results.items() if name == figure.arm)
        each = " · ".join(metric.shown(v) for v in figure.by_seed.values())
        rows.append(
            [
                study.arm(figure.arm).title,
                metric.shown(figure.mean),
                each if study.arm(figure.arm).seeded else "no seeds",
                *(f"{100 * v:.1f}" for v in figure.by_class),
                f"{result.facts['parameters']:,}",
                f"{_seconds(outcome, figure.arm):.1f}",
            ]
        )
    head = [
        "Arm",
        metric.unit if metric.by_item else metric.name,
        "each seed",
        *classes,
        "parameters",
        "training s",
    ]
    note = f"Columns named {words.listing(list(classes))} hold the F1 of each." if classes else ""
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
    """What all arms misread, in a sentence and a few examples."""
    truth = outcome.truth
    if truth is None or not outcome.figures:
        return None
    by_arm = {figure.arm: outcome.results[figure.arm, next(iter(figure.by_seed))].items for figure in outcome.figures}
    wrong = [i for i, label in enumerate(truth.labels) if all(int(items[i]) != label for items in by_arm.values())]
    total = len(truth.labels)
    arms = [outcome.study.arm(name) for name in by_arm]
    seed = outcome.study.seeds[0]
    examples = [
        {
            "text": _cut(finding.declared.texts[outcome.study.name][i]),
            "truth": truth.classes[truth.labels[i]],
            "readings": words.listing(
                _readings({outcome.study.arm(a).title: truth.classes[int(v[i])] for a, v in by_arm.items()})
            ),
        }
        for i in wrong[:EXAMPLES]
    ]
    names = words.listing([arm.title for arm in arms])
    count = f"{len(wrong)} of {total:,} test items ({len(wrong) / total:.1%})"
    return {
        "sentence": f"{count} are misread by {names} alike (seed {seed}).",
        "examples": examples,
    }


def _readings(by_arm: Mapping[str, str]) -> list[str]:
    """Each class once, with the arms that read it."""
    classes = dict.fromkeys(by_arm.values())
    return [f"{name} by {words.listing([arm for arm, read in by_arm.items() if read == name])}" for name in classes]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_EXAMPLE else text[:LONGEST_EXAMPLE].rsplit(" ", 1)[0] + " …"


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
