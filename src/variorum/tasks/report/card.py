"""The report in a page of Markdown, without texts of its rows: what stands as ``README.md`` beside a model."""

from __future__ import annotations

import re

from variorum.tasks.report.drawn import distance, length, opening
from variorum.tasks.report.findings import Report

_ACTS = re.compile(r"([\\`*_{}\[\]<>|#!&~$])")
"""What Markdown, or HTML within it, would take for more than a letter."""


def card(found: Report) -> str:
    """The card."""
    lines = [f"# {plain(found.title)}", "", plain(opening(found)), "", "## Figures", ""]
    lines += ["| | value | 95 % over rows | each seed |", "|---|---|---|---|"]
    every = [("", one) for one in found.figures]
    every += [(f"{name}: ", one) for name, figures in found.baselines.items() for one in figures]
    for who, one in every:
        each = " · ".join(f"{value:.3f}" for value in one.by_seed)
        ends = f"[{one.items.low:.3f}, {one.items.high:.3f}]"
        lines.append(f"| {plain(who + one.name)} | {one.items.value:.3f} | {ends} | {each} |")
    if found.by_class:
        lines += ["", f"| {found.called} | there | precision | recall | F1 |", "|---|---|---|---|---|"]
    for kind in found.by_class:
        figures = " | ".join(one.said() for one in (kind.precision, kind.recall, kind.f1))
        lines.append(f"| {plain(kind.name)} | {kind.rows:,} | {figures} |")
    lines += ["", " ".join(filter(None, (distance(found), length(found))))]
    if found.slices:
        lines += ["", "## Slices", "", f"| by | slice | rows | {found.measure} |", "|---|---|---|---|"]
        lines += [f"| {plain(s.by)} | {plain(s.name)} | {s.rows:,} | {s.mean.said()} |" for s in found.slices]
    if found.audit:
        lines += ["", "## The data", "", *(f"- {plain(line)}" for line in found.audit)]
    lines += ["", "## How to repeat it", "", f"    {_one_line(found.command)}", ""]
    lines += [f"- {plain(name)}: {plain(value)}" for name, value in found.facts.items()]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """``text`` in one line, as letters and nothing else."""
    return _ACTS.sub(r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())
