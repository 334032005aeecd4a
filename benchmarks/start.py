"""How long a command takes from nothing to its answer, beside a bare interpreter and the imports it avoids.

Commands that answer from specs must take less than 0.3 s, help pages less than 0.4 s.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

RUNS = 9
FROM_SPECS, HELP = 0.3, 0.4
COMMANDS = {
    ("tree",): FROM_SPECS,
    ("diff", "bert", "modernbert"): FROM_SPECS,
    ("size", "llama-3-8b", "--context", "8192", "--batch", "4"): FROM_SPECS,
    ("--help",): HELP,
    ("diff", "--help"): HELP,
    ("study", "--help"): HELP,
}
BARE = ("-c", "pass")
PEERS = {"import torch": ("-c", "import torch"), "import transformers": ("-c", "import transformers")}


class Row(NamedTuple):
    """One command: its median in seconds, the goal, and what stands beside it in the same run."""

    what: str
    ours: float
    unit: str
    goal: float
    met: bool
    beside: str


def measure() -> list[Row]:
    """Run every command nine times, alternating, and return the medians."""
    sides: dict[tuple[str, ...], list[float]] = {}
    lines = [("-m", "variorum", *words) for words in COMMANDS]
    for _ in range(RUNS):
        for line in [BARE, *lines]:
            sides.setdefault(line, []).append(seconds(line))
    bare = statistics.median(sides[BARE])
    others = [f"{name} {statistics.median(seconds(line) for _ in range(3)):.2f} s" for name, line in PEERS.items()]
    beside = ", ".join([f"bare interpreter {bare:.3f} s", *others])
    rows = []
    for line, goal in zip(lines, COMMANDS.values(), strict=True):
        median = statistics.median(sides[line])
        rows.append(Row(" ".join(line[1:]), round(median, 3), "s", goal, median < goal, beside))
    return rows


def seconds(words: Sequence[str]) -> float:
    """The wall time of one interpreter; a command that fails is an error, not a fast answer."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    return time.perf_counter() - begin
