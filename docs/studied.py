"""``python docs/studied.py [NAME ...] [--workers N]``: ready studies carried through, into
``docs/trained/studied.json`` and a page.

Each is ``variorum study run NAME``, whose folder lies in ``.cache/studies`` and goes on where it was stopped. The table
of ``docs/studies.md`` is drawn from the file alone; ``--draw`` only draws.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import marked

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.tools import datasets
from variorum.study import library

ROOT = Path(__file__).parents[1]
FIGURES, PAGE, CACHE = ROOT / "docs/trained/studied.json", ROOT / "docs/studies.md", ROOT / ".cache/studies"
BEGIN, END = "<!-- figures of docs/studied.py -->", "<!-- end of the ready studies -->"
DRAW, WORKERS = "--draw", "--workers"
KEPT = ("claim", "verdict", "gain", "low", "high", "seeds", "detectable", "seeds_to_decide")
TABLES = {"z19-casing": "conll"}
"""What of ``make fetch`` a study is given that asks for a table."""


def carried(name: str, workers: Sequence[str]) -> dict[str, Any]:
    """Run one ready study to its end; what its report says of every claim."""
    if library.checks(name):
        found = _said("study", "run", name)
        return {"checks": [{key: one[key] for key in ("claim", "found", "expected", "how")} for one in found]}
    given = [*workers, "--out", str(CACHE / name)]
    if name in TABLES:
        (folder := ROOT / ".cache/datasets").mkdir(parents=True, exist_ok=True)
        table = folder / f"{TABLES[name]}.csv"
        if not table.exists():
            datasets.write(TABLES[name], folder)
        given += ["--data", str(table)]
    study = _said("study", "run", name, *given)["studies"][0]
    return {
        "budget": study["budget"],
        "unit": study["metric"]["unit"],
        "seconds": sum(cell["facts"]["seconds"] for cell in study["cells"]),
        "arms": {arm["title"]: arm["mean"] for arm in study["arms"]},
        "claims": [{key: claim[key] for key in KEPT} for claim in study["claims"]],
    }


def _said(*words: str) -> Any:
    """What a command says."""
    command = [sys.executable, "-m", "variorum", *words, "--format", "json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def page(found: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """A paragraph and a table for every study that was carried through."""
    for one in library.ready():
        if one.name not in found:
            continue
        told = found[one.name]
        yield f"### `{one.name}`: {one.title}"
        yield ""
        if one.checks:
            yield f"Published: {one.published}. Here: {one.changed}; tried at once."
            yield ""
            yield from _checked(told["checks"])
            continue
        yield f"Published: {one.published}. Here: {one.changed}; {told['budget']}, {_minutes(told)}."
        yield ""
        yield f"| claim | gain, {told['unit']} | interval | verdict |"
        yield "|---|---|---|---|"
        for claim in told["claims"]:
            more = claim["seeds_to_decide"]
            verdict = claim["verdict"] + (f", about {more} more seeds" if more else "")
            gain, low, high = (_measured(claim[key], told["unit"]) for key in ("gain", "low", "high"))
            shown = f"{gain} | {low} to {high}"
            yield f"| {claim['claim']} | {shown} | {verdict} |"
        yield ""


def _measured(value: float, unit: str) -> str:
    """A gain as its unit says it: hundredths are points."""
    return f"{100 * value:+.1f}" if unit == "points" else f"{value:+.4f}"


def _checked(findings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| claim | found | expected | how |"
    yield "|---|---|---|---|"
    for one in findings:
        found, expected = (_number(one[key]) for key in ("found", "expected"))
        yield f"| {one['claim']} | {found} | {expected} | {one['how']} |"
    yield ""


def _number(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_number, value))
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def _minutes(told: Mapping[str, Any]) -> str:
    return f"{told['seconds'] / 60:.0f} minutes of one core"


def main(words: list[str]) -> None:
    """Carry through what is named, or all; write the page."""
    workers = [WORKERS, words.pop(words.index(WORKERS) + 1)] if WORKERS in words else []
    names = [word for word in words if word not in (DRAW, WORKERS)]
    wanted = [library.find(name) for name in names] or library.ready()
    for name in [] if DRAW in words else [one.name for one in wanted]:
        print(name, file=sys.stderr, flush=True)
        told = carried(name, workers)
        found: dict[str, Any] = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
        FIGURES.write_text(json.dumps(dict(sorted((found | {name: told}).items())), indent=1) + "\n", "utf-8")
    found = json.loads(FIGURES.read_text("utf-8"))
    marked.write(PAGE, BEGIN, END, "\n".join(page(found)).rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])
