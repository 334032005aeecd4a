"""What an answer costs, measured in a process that does nothing but answer.

``measure`` starts it on what an arm keeps: the model is read there, texts are answered one by one and then together.
Memory is the resident height of that process, Python and libraries included: what a service has to be given.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from variorum.errors import RunFailed
from variorum.study import reads
from variorum.study.lesson import Predict
from variorum.study.ways import WAYS

WARM = 2
"""Answers before the clock starts: what is read or made once is read and made."""
ROUNDS, ENOUGH = 3, 5.0
"""Times that the same is asked, and seconds after which it is not asked again; the quickest counts."""
TOGETHER = 256
"""Rows that are answered together, for the throughput."""


class Kept(Protocol):
    """An arm that can be taken to another process; as :class:`variorum.study.lesson.Learned` says."""

    def keep(self, folder: Path) -> int: ...

    def flops(self, rows: Any) -> int | None: ...


class Recalled(Protocol):
    """What reads there what was kept; as :class:`variorum.study.lesson.Way` says."""

    def recall(self, folder: Path) -> Predict: ...


RECALLED: Mapping[str, Recalled] = {**WAYS, reads.WAY: reads.Reads()}
"""By the way that an arm came to answer."""


def measure(learned: Kept, way: str, one_by_one: Sequence[Any], together: Sequence[Any]) -> tuple[dict[str, Any], int]:
    """Fields of :class:`variorum.study.costs.Costs` but the training, and the bytes that the process took at most.

    Raises:
        RunFailed: the process ended without an answer.
    """
    with tempfile.TemporaryDirectory(prefix="variorum-answering-") as folder:
        disk = learned.keep(Path(folder))
        rows = {"way": way, "one_by_one": list(one_by_one), "together": list(together[:TOGETHER])}
        (Path(folder) / "rows.json").write_text(json.dumps(rows), "utf-8")
        done = subprocess.run(
            [sys.executable, "-m", __name__, folder], capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise RunFailed(f"measuring its answers failed: {said[-1] if said else f'exit {done.returncode}'}", where=way)
    found = json.loads(done.stdout)
    return {**found["costs"], "disk": disk, "flops": learned.flops(one_by_one)}, found["height"]


def answered(folder: Path) -> dict[str, Any]:
    """Answer the rows in ``folder`` with what is kept there, and say what it took."""
    from variorum.inference.peak import peak_bytes

    rows = json.loads((folder / "rows.json").read_bytes())
    predict = RECALLED[rows["way"]].recall(folder)
    for row in rows["one_by_one"][:WARM]:
        predict([row])
    times = sorted(_timed(predict, [[row] for row in rows["one_by_one"]]))
    memory, together = peak_bytes(), rows["together"]
    costs = {
        "latency": times[len(times) // 2], "latency_95": times[min(len(times) - 1, 95 * len(times) // 100)],
        "memory": memory, "throughput": len(together) / _timed(predict, [together])[0],
    }  # fmt: skip
    return {"costs": costs, "height": peak_bytes()}


def _timed(predict: Predict, asked: Sequence[Sequence[Any]]) -> list[float]:
    """Seconds of each answer, the least of some rounds: what the machine does beside is no cost of the arm."""
    begun, least = time.perf_counter(), [math.inf] * len(asked)
    for _ in range(ROUNDS):
        for i, rows in enumerate(asked):
            begin = time.perf_counter()
            predict(rows)
            least[i] = min(least[i], time.perf_counter() - begin)
        if time.perf_counter() - begun > ENOUGH:
            break
    return least


if __name__ == "__main__":
    print(json.dumps(answered(Path(sys.argv[1]))))
