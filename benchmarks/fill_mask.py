"""The words for a mask from a cold start: from the shell to the answer, BERT-tiny's real weights.

Nothing that reads weights starts sooner than torch does, so the goal is what comes on top of ``import torch``.
"""

from __future__ import annotations

from benchmarks.harness import models
from benchmarks.harness.job import Job
from benchmarks.start import medians

RUNS, QUICK = 5, 2
TEXT = "Paris is the capital of [MASK]."
THEIRS = "from transformers import pipeline; print(pipeline('fill-mask', {model!r})({text!r})[0]['token_str'])"
TORCH, OURS, PEER = "import torch", "variorum fill-mask", "transformers' pipeline"


def measure(quick: bool) -> list[Job]:
    """Ours, the peer and the bare import, by turns."""
    model = str(models.fetched("bert-tiny"))
    lines = {
        TORCH: ("-c", TORCH),
        OURS: ("-m", "variorum", "fill-mask", model, TEXT),
        PEER: ("-c", THEIRS.format(model=model, text=TEXT)),
    }
    found = medians(lines, QUICK if quick else RUNS)
    rows = [{"from nothing to the answer": name, "seconds": value} for name, value in found.items()]
    figures = {"beyond import torch": found[OURS] - found[TORCH], "over transformers": found[PEER] / found[OURS]}
    return [Job(name="fill-mask", figures=figures, sides=rows)]
