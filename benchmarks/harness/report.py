"""The page: goals in one table, what holds back those that are missed, and every side of every job below."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from benchmarks.harness.job import Found, Job, judged
from variorum.cli.output import Column, plain, table, written

SUMMARY = ("job", "figure", "found", "goal", "met")


def printed(benchmark: str, found: Found) -> list[str]:
    """What a reader at the terminal sees: tables, then one line of JSON with everything."""
    lines: list[str] = []
    for job in found.jobs:
        lines += _job(job)
    rows = [row for job in found.jobs for row in judged(job)]
    lines += [*table(rows, SUMMARY), ""]
    whole = {"benchmark": benchmark, **found.about, "jobs": plain(found.jobs), "goals": plain(rows)}
    return [*lines, json.dumps(whole, ensure_ascii=False)]


def page(found: Mapping[str, Found]) -> str:
    """``RESULTS.md``: of each benchmark what was found last."""
    rows = [row for one in found.values() for job in one.jobs for row in judged(job)]
    met = sum(row["met"] == "yes" for row in rows)
    lines = ["# Measured", "", f"Written by `make bench`; {met} of {len(rows)} goals are met.", ""]
    lines += [*_markdown(rows, SUMMARY), ""]
    if missed := {str(row["job"]): str(row["held_back"]) for row in rows if row["met"] == "no"}:
        lines += ["## What holds back those that are missed", ""]
        lines += [f"- **{job}**: {why or 'not found out yet'}" for job, why in missed.items()] + [""]
    for name, one in found.items():
        lines += [f"## {name}", "", _about(one.about), ""]
        for job in one.jobs:
            lines += ["```", *_job(job), "```", ""]
    return "\n".join(lines)


def _job(job: Job) -> list[str]:
    lines = [f"{job.name}"]
    if job.facts:
        lines.append(", ".join(f"{name} {written(value)}" for name, value in job.facts.items()))
    lines += table(job.sides, _columns(job.sides)) if job.sides else []
    return [*lines, *(f"FAULT: {fault}" for fault in job.faults), ""]


def _columns(rows: Sequence[Mapping[str, object]]) -> list[str | Column]:
    """Every field of the rows; notes stand last, and only where there are any."""
    names = list(dict.fromkeys(key for row in rows for key in row if key != "note"))
    return [*names, *(["note"] if any(row.get("note") for row in rows) else [])]


def _about(about: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {written(value)}" for name, value in about.items()) + "."


def _markdown(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> list[str]:
    head = [Column(name) for name in columns]
    lines = ["| " + " | ".join(column.key for column in head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(written(row[column.key]) for column in head) + " |" for row in rows]
