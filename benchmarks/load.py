"""The call that loads a checkpoint of 440 MB (BERT-base's shape), its file already in the machine's page cache.

Beside the time stands the memory that the process gained at most, over the size of the file: a second copy would show.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.encode import ENGINES
from benchmarks.harness import models
from benchmarks.harness.job import Job
from benchmarks.harness.turns import OURS, Side, compared, failures, interleaved, ratios
from benchmarks.harness.worker import Broken, Missing, Worker

BASE = "transformers"
ROUNDS, QUICK = 7, 2
SAME = 1e-5


def measure(quick: bool) -> list[Job]:
    """Both sides; then the memory of each, in a process of its own that loads once."""
    with tempfile.TemporaryDirectory(prefix="variorum-bench-") as folder:
        model = models.bert_base(Path(folder))
        size = (model / "model.safetensors").stat().st_size
        sides = [
            Side(BASE, f"{ENGINES}.transformers:load", {"model": str(model)}),
            Side(OURS, f"{ENGINES}.variorum:load", {"model": str(model)}),
        ]
        found = interleaved(sides, rounds=QUICK if quick else ROUNDS)
        memory = {side.name: one for side in sides if (one := gained(side)) is not None}
    figures, ratio, faults = compared(found, OURS, BASE, []), ratios(found, BASE), failures(found)
    if OURS in memory:
        figures["peak memory over the file"] = memory[OURS].bytes / size
    if len(memory) == len(sides) and not math.isclose(memory[OURS].sum, memory[BASE].sum, rel_tol=SAME):
        faults.append(f"the sum of all that is loaded is {memory[OURS].sum}, transformers' {memory[BASE].sum}")
    rows = [
        {"engine": name, "seconds": one.median, "over transformers": ratio.get(name),
         "peak memory over the file": memory[name].bytes / size if name in memory else None, "note": one.note}
        for name, one in found.items()
    ]  # fmt: skip
    return [Job(name="load", figures=figures, sides=rows, facts={"file MB": size / 1e6}, faults=faults)]


class Gained(NamedTuple):
    """Bytes that a first load and a look at every weight added to a process at most, and the sum of the weights."""

    bytes: int
    sum: float


def gained(side: Side) -> Gained | None:
    """What one load costs in a process of its own; ``None`` where it cannot be had."""
    worker = Worker()
    try:
        worker.make(side.make, {**side.given, "touch": True})
        before, _ = worker.memory()
        total = worker.run(1)[1]
        return Gained(worker.memory()[1] - before, total)
    except (Missing, Broken):
        return None
    finally:
        worker.close()
