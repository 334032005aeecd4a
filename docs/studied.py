"""``python docs/studied.py [NAME ...]``: ready studies carried through, into ``docs/trained/studied.json`` and a page.

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

from variorum.study import library

ROOT = Path(__file__).parents[1]
FIGURES, PAGE, CACHE = ROOT / "docs/trained/studied.json", ROOT / "docs/studies.md", ROOT / ".cache/studies"
BEGIN, END = "<!-- figures of docs/studied.py -->", "<!-- end of the ready studies -->"
DRAW = "--draw"
KEPT = ("claim", "verdict", "gain", "low", "high", "seeds", "detectable", "seeds_to_decide")


def carried(name: str) -> dict[str, Any]:
    """Run one ready study to its end; what its report says of every claim."""
    command = ["variorum", "--format", "json", "study", "run", name, "--out", str(CACHE / name)]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    study = found["studies"][0]
    return {
        "budget": study["budget"],
        "unit": study["metric"]["unit"],
        "seconds": sum(cell["facts"]["seconds"] for cell in study["cells"]),
        "arms": {arm["title"]: arm["mean"] for arm in study["arms"]},
        "claims": [{key: claim[key] for key in KEPT} for claim in study["claims"]],
    }


def page(found: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """A paragraph and a table for every study that was carried through."""
    for one in library.ready():
        if one.name not in found:
            continue
        told = found[one.name]
        yield f"### `{one.name}`: {one.asked.title}"
        yield ""
        yield f"Published: {one.published}. Here: {one.changed}; {told['budget']}, {_minutes(told)}."
        yield ""
        yield f"| claim | gain, {told['unit']} | interval | verdict |"
        yield "|---|---|---|---|"
        for claim in told["claims"]:
            more = claim["seeds_to_decide"]
            verdict = claim["verdict"] + (f", about {more} more seeds" if more else "")
            shown = f"{claim['gain']:+.4f} | {claim['low']:+.4f} to {claim['high']:+.4f}"
            yield f"| {claim['claim']} | {shown} | {verdict} |"
        yield ""


def _minutes(told: Mapping[str, Any]) -> str:
    return f"{told['seconds'] / 60:.0f} minutes of one core"


def main(words: Sequence[str]) -> None:
    """Carry through what is named, or all; write the page."""
    found: dict[str, Any] = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    wanted = [library.find(word) for word in words if word != DRAW] or library.ready()
    for name in [] if DRAW in words else [one.name for one in wanted]:
        print(name, file=sys.stderr, flush=True)
        found[name] = carried(name)
        FIGURES.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n", "utf-8")
    marked.write(PAGE, BEGIN, END, "\n".join(page(found)).rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])
