"""``python -m benchmarks.plans [NAME ...]``: ten varied runs of ``variorum pretrain`` and ten studies, or those named.

Each is carried out as a user would, in a process of its own; what it foretold is put beside what it took, in
``PLANS.md``. Outcomes are kept in ``runs.json``, so that they may be measured a few at a time on a machine that does
nothing else. The command fails where less than is wanted came true.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import about
from variorum.cli.output import table, written

Row = dict[str, Any]
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
#: What is asked beside ``variorum study``: ways to name arms, budgets, objectives, trials of rates, labelled rows.
STUDIES = {
    "walk": "run --walk gpt2..llama --budget 60steps --seeds 2 --batch 8 --length 64",
    "one-change": "run --ablate gpt2..llama:architecture.decoder.block.layout.norm --budget 60steps --batch 8",
    "a-time": "run --arms gpt2 llama --budget 10s --seeds 3 --batch 8",
    "operations": "run --arms gpt2 gpt2+decoder.depth=1 --budget 800Gflops --seeds 3 --batch 8",
    "activations": "run --arms gpt2 --grid decoder.block.feedforward.activation=relu,silu --budget 50steps --seeds 3",
    "rates": "run --arms gpt2 llama --rates 3e-4 1e-3 3e-3 --budget 100steps --seeds 2 --batch 8",
    "masks": "run --arms bert+objective.pair=none roberta --budget 80steps --seeds 3 --batch 8",
    "two-stacks": "run --arms t5 t5+decoder.depth=1 --budget 60steps --seeds 2 --batch 8",
    "probed": "run z01 --budget 60steps --seeds 2 --batch 8",
    "bake-off": "bakeoff snippets --models nano nano:roberta --epochs 1 --max-length 32 --seeds 2",
}
#: What is wanted: of ten bands so many hold the outcome, none is wider, and memory is as near.
HELD, WIDEST, NEAR = 7, 1.6, 0.15


@dataclass(frozen=True)
class Kind:
    """What is planned.

    Attributes:
        command: from what is asked and a folder to a command line. read: what it printed, as a row.
        counted: what its plan counts.
    """

    title: str
    runs: Mapping[str, str]
    command: Callable[[str, str], list[str]]
    read: Callable[[Row], Row]
    counted: str

    def taken(self, name: str) -> Row:
        """What a run foretold and took, and how long its command lasted."""
        out = tempfile.mkdtemp(prefix="variorum-plan-")
        asked = self.runs[name]
        begin = time.perf_counter()
        try:
            done = subprocess.run([*self.command(asked, out), "--format", "json"], stdout=subprocess.PIPE, text=True,
                                  check=True)  # fmt: skip
        finally:
            shutil.rmtree(out)
        whole, machine = time.perf_counter() - begin, written(about()["machine"])
        return {"asked": asked, "machine": machine, "whole": whole, **self.read(json.loads(done.stdout))}

    def row(self, name: str, one: Row) -> Row:
        """One line of the page."""
        low, high = one["planned_seconds"]
        return {
            "run": name,
            self.counted: one["steps"],
            "seconds foretold": f"{low:.1f} to {high:.1f}",
            "taken": f"{one['seconds']:.1f}",
            "held": "yes" if low <= one["seconds"] <= high else "no",
            "MiB foretold": f"{one['planned_peak'] / 2**20:,.0f}",
            "at most": f"{one['peak'] / 2**20:,.0f}",
            "apart": f"{_over(one):+.1%}",
            "whole command, s": f"{one['whole']:.0f}",
        }

    def section(self, found: Mapping[str, Row]) -> list[str]:
        """Its part of the page."""
        mine = {name: found[name] for name in self.runs if name in found}
        if not mine:
            return []
        rows = [self.row(name, one) for name, one in mine.items()]
        held, widest, near = came_true(mine)
        return [
            f"## {self.title}", "", f"On {'; '.join(sorted({one['machine'] for one in mine.values()}))}.", "",
            f"- {held} of {len(rows)} outcomes lie in the printed band; {HELD} of {len(self.runs)} are wanted.",
            f"- The widest band spans a factor of {widest:.2f}; at most {WIDEST} is wanted.",
            f"- Memory was foretold within {NEAR:.0%} in {near} of {len(rows)}; all are wanted.", "",
            "```", *table(rows, list(rows[0])), "```", "",
            *(f"- {name}: `{one['asked']}`" for name, one in mine.items()), "",
        ]  # fmt: skip


def _pretrain(asked: str, out: str) -> list[str]:
    spec, *more = asked.split()
    return ["variorum", "pretrain", spec, "austen", *more, "--out", out]


def _of_pretrain(row: Row) -> Row:
    return {name: row[name] for name in ("steps", "planned_seconds", "seconds", "planned_peak", "peak")}


def _study(asked: str, out: str) -> list[str]:
    return ["variorum", "study", *asked.split(), "--out", out]


def _of_study(row: Row) -> Row:
    plan = row["plan"]
    return {"steps": plan["cells"], "planned_seconds": plan["planned_seconds"], "seconds": plan["seconds"],
            "planned_peak": plan["planned_memory"], "peak": plan["memory"]}  # fmt: skip


KINDS = (
    Kind("`variorum pretrain SPEC austen`, with what follows", RUNS, _pretrain, _of_pretrain, "steps"),
    Kind("`variorum study`, with what follows", STUDIES, _study, _of_study, "cells"),
)


def came_true(found: Mapping[str, Row]) -> tuple[int, float, int]:
    """How many bands hold their outcome, the widest, and how often memory was foretold near enough."""
    held = sum(low <= one["seconds"] <= high for one in found.values() for low, high in [one["planned_seconds"]])
    widest = max(high / low for one in found.values() for low, high in [one["planned_seconds"]])
    return held, widest, sum(abs(_over(one)) <= NEAR for one in found.values())


def page(found: Mapping[str, Row]) -> str:
    """``PLANS.md``."""
    head = ["# Plans beside what runs took", "", "Written by `python -m benchmarks.plans`.", ""]
    return "\n".join([*head, *(line for kind in KINDS for line in kind.section(found))])


def missed(kind: Kind, found: Mapping[str, Row]) -> bool:
    """Whether less came true than is wanted, where all of a kind was measured."""
    mine = {name: one for name, one in found.items() if name in kind.runs}
    if len(mine) < len(kind.runs):
        return False
    held, widest, near = came_true(mine)
    return held < HELD or widest > WIDEST or near < len(mine)


def _over(one: Row) -> float:
    return float(one["planned_peak"] / one["peak"] - 1)


def main(names: Sequence[str]) -> int:
    """Carry out the runs and write the page; 1 where what is wanted is missed."""
    found: dict[str, Row] = json.loads(FOUND.read_text("utf-8")) if FOUND.exists() else {}
    every = {name: kind for kind in KINDS for name in kind.runs}
    for name in names or every:
        kind = every[name]
        found[name] = kind.taken(name)
        row = kind.row(name, found[name])
        print("\n".join(table([row], list(row))), flush=True)
        FOUND.write_text(json.dumps({name: found[name] for name in every if name in found}, indent=1) + "\n", "utf-8")
    PAGE.write_text(page(found), "utf-8")
    print(PAGE.read_text("utf-8"))
    return int(any(missed(kind, found) for kind in KINDS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
