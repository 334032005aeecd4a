"""What attention keeps for its gradient: tiles with an online softmax beside the definition and torch's fused kernel.

Bytes are counted, not sampled: every tensor that the forward keeps, once. Values and gradients are held against the
definition's at each length. Times are forward and backward together, in turns.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from variorum.attention.backends import BACKENDS
from variorum.attention.scores import Scores
from variorum.checks.tiles import CHANNELS, PLAIN, attended, difference, inputs, saved

if TYPE_CHECKING:
    from benchmarks.harness.job import Job

LENGTHS, QUICK = (1024, 2048, 4096), (512, 1024)
ROUNDS = 3
KINDS = {"causal": PLAIN, "softcap": Scores(scale=CHANNELS**-0.5, softcap=50.0)}


def measure(quick: bool = False) -> list[Job]:
    """A causal text with plain and with capped scores, at every length and in every backend that takes it."""
    from benchmarks.harness.job import Job

    lengths, jobs = QUICK if quick else LENGTHS, []
    for kind, scores in KINDS.items():
        names = [name for name in BACKENDS if name != "sdpa" or scores.softcap is None]
        sides, faults, kept = [], [], {}
        for length in lengths:
            seconds = timed(names, scores, length)
            apart = difference(scores, length)
            if apart > 1e-4:
                faults.append(f"{kind}, {length} tokens: tiles differ from the definition by {apart:.1e}")
            for name in names:
                kept[name, length] = saved(name, length, scores)
                sides.append({"backend": name, "tokens": length, "kept, MB": kept[name, length] / 1e6,
                              "forward and backward, s": seconds[name]})  # fmt: skip
        step = lengths[-1] / lengths[0]
        growth = {name: math.log(kept[name, lengths[-1]] / kept[name, lengths[0]], step) for name in names}
        figures = {"growth of what is kept": growth["tiled"]}
        figures["kept over the definition"] = kept["tiled", lengths[-1]] / kept["eager", lengths[-1]]
        facts = {f"growth, {name}": value for name, value in growth.items()}
        jobs.append(Job(name=f"tiles-{kind}", figures=figures, sides=sides, facts=facts, faults=faults))
    return jobs


def timed(names: list[str], scores: Scores, length: int) -> dict[str, float]:
    """Seconds of the fastest of a few turns of each backend."""
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        for name in names:
            qkv = inputs(length)
            begin = time.perf_counter()
            attended(name, qkv, scores).sum().backward()
            seconds[name].append(time.perf_counter() - begin)
    return {name: min(spent) for name, spent in seconds.items()}
