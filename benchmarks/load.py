"""The call that loads a checkpoint of 440 MB (BERT-base's shape), its file already in the machine's page cache.

A file that is only mapped is read later, so the call is timed alone and with one reading of every weight. Beside it
stands the memory that the process gained at most, over the size of the file: a second copy would show.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from benchmarks.encode import ENGINES
from benchmarks.harness import models
from benchmarks.harness.job import Job
from benchmarks.harness.turns import OURS, Side, compared, failures, interleaved_cases, ratios
from benchmarks.harness.worker import Broken, Missing, Worker

BASE = "transformers"
ROUNDS, QUICK = 7, 2
READ = {"read": True}
#: Of the sum of all weights: each side adds them up in its own order.
SAME = 1e-5


def measure(quick: bool) -> list[Job]:
    """Both sides; then the memory of each, in a process of its own that loads once."""
    with tempfile.TemporaryDirectory(prefix="variorum-bench-") as folder:
        model = Path(folder) / "checkpoint"
        models.saved(model, "bert-base-uncased", {}, None)
        size = (model / "model.safetensors").stat().st_size
        given = {"model": str(model)}
        sides = [Side(name, f"{ENGINES}.{name}:load", given) for name in (BASE, OURS)]
        call, read = interleaved_cases(sides, [{"read": False}, READ], rounds=QUICK if quick else ROUNDS)
        memory = {side.name: held for side in sides if (held := gained(side)) is not None}
    figures, faults = compared(call, OURS, BASE, []), failures(call)
    if OURS in memory:
        figures["peak memory over the file"] = memory[OURS] / size
    sums = {name: one.answer for name, one in read.items()}
    if None not in sums.values() and not math.isclose(sums[OURS], sums[BASE], rel_tol=SAME):
        faults.append(f"the sum of all that is loaded is {sums[OURS]}, transformers' {sums[BASE]}")
    rows = [
        {"engine": name, "seconds": one.median, "over transformers": ratios(call, BASE).get(name),
         "and read once": read[name].median, "read, over transformers": ratios(read, BASE).get(name),
         "peak memory over the file": memory[name] / size if name in memory else None, "note": one.note}
        for name, one in call.items()
    ]  # fmt: skip
    return [Job(name="load", figures=figures, sides=rows, facts={"file MB": size / 1e6}, faults=faults)]


def gained(side: Side) -> int | None:
    """Bytes that a first load and a reading of every weight add to a process at most; ``None`` where it fails."""
    worker = Worker()
    try:
        worker.make(side.make, side.given)
        before, _ = worker.memory()
        worker.run(1, READ)
        return worker.memory()[1] - before
    except (Missing, Broken):
        return None
    finally:
        worker.close()
