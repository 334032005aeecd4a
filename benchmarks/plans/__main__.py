"""``python -m benchmarks.plans [NAME ...]``: ten varied runs of ``variorum pretrain``, or those named; ``PLANS.md``.

Each is carried out as a user would, in a process of its own; what it foretold is put beside what it took. Outcomes are
kept in ``runs.json``, so that the runs may be measured a few at a time on a machine that does nothing else. The command
fails where less than is wanted came true.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import about
from variorum.cli.output import table, written

FOUND = Path(__file__).with_name("runs.json")
PAGE = Path(__file__).parents[1] / "PLANS.md"
#: What is asked beside ``variorum pretrain SPEC austen``: kinds of models, objectives, sizes, batches, lengths.
RUNS = {
    "masked": "bert --scale nano --budget 20s",
    "causal": "gpt2 --scale nano --budget 20s",
    "spans": "t5 --scale nano --budget 20s",
    "replaced": "electra --scale nano --budget 25s",
    "small": "llama --scale small --budget 25s",
    "small-masked": "roberta --scale small --budget 25s --vocab 4000",
    "accumulated": "gpt2 --scale nano --budget 40steps --batch 64 --micro-batch 16",
    "recomputed": "gpt2 --scale small --budget 25s --recompute",
    "long": "modernbert --scale nano --budget 200ktokens --length 512 --batch 4",
    "infilled": "bart --scale nano --budget 200steps --vocab 2000 --length 64",
}
#: What is wanted: of ten bands so many hold the outcome, none is wider, and memory is as near.
HELD, WIDEST, NEAR = 7, 1.6, 0.15


def taken(asked: str) -> dict[str, Any]:
    """What a run foretold and took, and how long its command lasted."""
    out = Path(tempfile.mkdtemp(prefix="variorum-plan-"))
    spec, *more = asked.split()
    begin = time.perf_counter()
    try:
        done = subprocess.run(
            ["variorum", "pretrain", spec, "austen", *more, "--out", str(out), "--format", "json"],
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    finally:
        shutil.rmtree(out)
    row = json.loads(done.stdout)
    kept = ("steps", "planned_seconds", "seconds", "planned_peak", "peak")
    return {"asked": asked, "whole": time.perf_counter() - begin, **{name: row[name] for name in kept}}


def came_true(found: dict[str, dict[str, Any]]) -> tuple[int, float, int]:
    """How many bands hold their outcome, the widest, and how often memory was foretold near enough."""
    held = sum(low <= one["seconds"] <= high for one in found.values() for low, high in [one["planned_seconds"]])
    widest = max(high / low for one in found.values() for low, high in [one["planned_seconds"]])
    return held, widest, sum(abs(_over(one)) <= NEAR for one in found.values())


def page(found: dict[str, dict[str, Any]], machine: str) -> str:
    """``PLANS.md``."""
    rows = [_row(name, found[name]) for name in RUNS if name in found]
    held, widest, near = came_true(found)
    return "\n".join([
        "# Plans beside what runs took", "",
        f"{machine}. Written by `python -m benchmarks.plans`.", "",
        f"- {held} of {len(rows)} outcomes lie in the band that was printed; {HELD} of {len(RUNS)} are wanted.",
        f"- The widest band spans a factor of {widest:.2f}; at most {WIDEST} is wanted.",
        f"- Memory was foretold within {NEAR:.0%} in {near} of {len(rows)}; all are wanted.", "",
        "```", *table(rows, list(rows[0])), "```", "",
        "`variorum pretrain SPEC austen` with:", "",
        *(f"- {name}: `{one['asked']}`" for name, one in found.items()), "",
    ])  # fmt: skip


def _row(name: str, one: dict[str, Any]) -> dict[str, Any]:
    low, high = one["planned_seconds"]
    return {
        "run": name,
        "steps": one["steps"],
        "seconds foretold": f"{low:.1f} to {high:.1f}",
        "taken": f"{one['seconds']:.1f}",
        "held": "yes" if low <= one["seconds"] <= high else "no",
        "MiB foretold": f"{one['planned_peak'] / 2**20:,.0f}",
        "at most": f"{one['peak'] / 2**20:,.0f}",
        "apart": f"{_over(one):+.1%}",
        "whole command, s": f"{one['whole']:.0f}",
    }


def _over(one: dict[str, Any]) -> float:
    return float(one["planned_peak"] / one["peak"] - 1)


def main(names: Sequence[str]) -> int:
    """Carry out the runs and write the page; 1 where what is wanted is missed."""
    found: dict[str, Any] = json.loads(FOUND.read_text("utf-8")) if FOUND.exists() else {}
    for name in names or RUNS:
        found[name] = taken(RUNS[name])
        print("\n".join(table([_row(name, found[name])], list(_row(name, found[name])))), flush=True)
        FOUND.write_text(json.dumps({name: found[name] for name in RUNS if name in found}, indent=1) + "\n", "utf-8")
    PAGE.write_text(page(found, written(about()["machine"])), "utf-8")
    print(PAGE.read_text("utf-8"))
    held, widest, near = came_true(found)
    return int(held < HELD or widest > WIDEST or near < len(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
