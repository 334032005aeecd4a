"""How long a command takes from nothing to its answer, beside a bare interpreter and the imports it avoids."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.harness.job import Job

RUNS, QUICK = 9, 3
COMMANDS = {
    "tree": ("tree",),
    "diff": ("diff", "bert", "modernbert"),
    "size": ("size", "llama-3-8b", "--context", "8192", "--batch", "4"),
    "--help": ("--help",),
    "diff --help": ("diff", "--help"),
    "study --help": ("study", "--help"),
}
IMPORTS = {
    "a bare interpreter": ("-c", "pass"),
    "import torch": ("-c", "import torch"),
    "import transformers": ("-c", "from transformers import AutoModel"),
}


def measure(quick: bool) -> list[Job]:
    """Run every command nine times, alternating; the imports of the others three times."""
    runs = QUICK if quick else RUNS
    lines = {name: ("-m", "variorum", *words) for name, words in COMMANDS.items()}
    figures = medians(lines, runs)
    beside = medians(IMPORTS, min(runs, QUICK))
    rows = [{"from nothing to the answer": name, "seconds": value} for name, value in (figures | beside).items()]
    return [Job(name="start", figures=figures, sides=rows, facts={"runs": runs})]


def medians(lines: dict[str, tuple[str, ...]], runs: int) -> dict[str, float]:
    """The median time of each line of words, in seconds, by turns."""
    taken: dict[str, list[float]] = {name: [] for name in lines}
    for _ in range(runs):
        for name, words in lines.items():
            taken[name].append(seconds(words))
    return {name: statistics.median(times) for name, times in taken.items()}


def seconds(words: Sequence[str]) -> float:
    """The wall time of one interpreter; a command that fails is an error, not a fast answer."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    return time.perf_counter() - begin
