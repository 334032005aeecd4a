"""Training steps of 2,048 tokens, 6 layers of 384: masked over three vocabularies, on real lengths, and causal.

The peer is a plain loop over transformers' model with the same weights, data, dropout and optimiser. Before the clock
runs, both take three steps without dropout, and their losses must agree. Memory is what a step takes beyond what the
process holds between steps.
"""

from __future__ import annotations

import dataclasses
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.encode import ENGINES
from benchmarks.harness import models, texts
from benchmarks.harness.job import Job
from benchmarks.harness.turns import OURS, Side, compared, failures, interleaved, per_second, ratios
from benchmarks.harness.worker import Broken, Missing, Worker

WIDTH, DEPTH, HEADS = 384, 6, 6
ROWS, LENGTH = 16, 128
DROPOUT, RATE_HIDDEN, MASK_ID, FIRST_WORD, IGNORED = 0.1, 0.15, 4, 5, -100
BASE = "transformers"
ROUNDS = 4
BATCHES = 4
CHECKED = 3
#: Of losses after a few steps without dropout: both sides round, in different orders.
AGREE = 1e-4


@dataclasses.dataclass(frozen=True)
class Task:
    """What is trained.

    Args:
        name: the job.
        spec: whose shape is cut down to this size.
        objective: its head.
        vocab: tokens.
        full: whether every row has all its tokens; otherwise rows are as long as texts are.
        weighed: whether the memory of a step is measured too.
    """

    name: str
    spec: str
    objective: str
    vocab: int
    full: bool = True
    weighed: bool = False


TASKS = (
    Task("train-mlm-8k", "bert", "masked_lm", 8_192),
    Task("train-mlm-16k", "bert", "masked_lm", 16_384),
    Task("train-mlm-30k", "bert", "masked_lm", 30_522, weighed=True),
    Task("train-mlm-packed", "bert", "masked_lm", 16_384, full=False),
    Task("train-causal", "gpt2", "causal_lm", 16_384),
)


def measure(quick: bool) -> list[Job]:
    """Every task, one after the other."""
    return [_measured(task, 1 if quick else ROUNDS) for task in TASKS]


def _measured(task: Task, rounds: int) -> Job:
    with tempfile.TemporaryDirectory(prefix="variorum-bench-") as folder:
        scratch = Path(folder)
        useful = drawn(task, scratch / "data.npz")
        for name, dropout in (("with", DROPOUT), ("without", 0.0)):
            models.saved(scratch / name, task.spec, sizes(task, dropout), task.objective, plain=True)
        given = {"model": str(scratch / "with"), "data": str(scratch / "data.npz"), "objective": task.objective}
        sides = [Side(BASE, f"{ENGINES}.steps:theirs", given), Side(OURS, f"{ENGINES}.steps:ours", given)]
        exact = {"model": str(scratch / "without"), "steps": CHECKED}
        checks = [Side(side.name, side.make, {**side.given, **exact}) for side in sides]
        checked = interleaved(checks, rounds=0)
        found = interleaved(sides, rounds=rounds)
        memory = {side.name: over_resting(side) for side in sides if task.weighed}
    figures, ratio, faults = compared(found, OURS, BASE, []), ratios(found, BASE), failures(found | checked)
    losses = {name: one.answer for name, one in checked.items()}
    apart = None if None in losses.values() else _apart(losses[OURS], losses[BASE])
    if apart is not None and apart > AGREE:
        faults.append(f"losses differ from transformers' by {apart:.1e} of theirs")
    held = {name: one for name, one in memory.items() if one is not None}
    if len(held) == len(sides):
        figures["memory over transformers"] = held[OURS] / held[BASE]
    rows = [
        {"engine": name, "useful tokens/s": per_second(useful, one), "seconds": one.median,
         "over transformers": ratio.get(name),
         **({"MB over resting": held[name] / 1e6} if name in held else {}), "note": one.note}
        for name, one in found.items()
    ]  # fmt: skip
    facts = {
        "vocabulary": task.vocab, "tokens": ROWS * LENGTH, "useful": useful, "dropout": DROPOUT,
        "losses differ by": apart,
    }  # fmt: skip
    return Job(name=task.name, figures=figures, sides=rows, facts=facts, faults=faults)


def sizes(task: Task, dropout: float) -> dict[str, object]:
    """The spec's values for this size."""
    stack = "architecture.encoder" if task.objective == "masked_lm" else "architecture.decoder"
    head_dim = WIDTH // HEADS
    return {
        "architecture.width": WIDTH, f"{stack}.depth": DEPTH, f"{stack}.input.vocab": task.vocab,
        f"{stack}.block.attention.heads": HEADS, f"{stack}.block.attention.kv_heads": HEADS,
        f"{stack}.block.attention.head_dim": head_dim, f"{stack}.block.feedforward.width": 4 * WIDTH,
        f"{stack}.block.dropout": dropout, f"{stack}.block.attention.dropout": dropout,
        f"{stack}.input.dropout": dropout,
    }  # fmt: skip


def drawn(task: Task, place: Path) -> int:
    """Write the batches of a task; returns how many tokens of each are real, on average."""
    rng, long = np.random.default_rng(0), LENGTH + (task.objective == "causal_lm")
    ids = rng.integers(FIRST_WORD, task.vocab, (BATCHES, ROWS, long))
    arrays: dict[str, Any] = {"input_ids": ids}
    real = np.ones_like(ids, dtype=bool)
    if not task.full:
        lengths = np.array(random.Random(0).choices(real_lengths(), k=BATCHES * ROWS)).reshape(BATCHES, ROWS, 1)
        real = np.arange(long) < lengths
        arrays["attention_mask"] = real.astype(np.int64)
    if task.objective == "causal_lm":
        arrays = {"input_ids": ids[..., :-1].copy(), "targets": ids[..., 1:].copy()}
        real = real[..., :-1]
    else:
        hidden = real & (rng.random(ids.shape) < RATE_HIDDEN)
        arrays["targets"] = np.where(hidden, ids, IGNORED)
        arrays["input_ids"] = np.where(hidden, MASK_ID, np.where(real, ids, 0))
    np.savez(place, **arrays)
    return int(real.sum() / BATCHES)


def real_lengths() -> list[int]:
    """Tokens of texts, cut at a row's length: three paragraphs of novels for every snippet."""
    from benchmarks.engines.pooled import tokenizer

    rows = texts.novel_paragraphs(300) + texts.snippets(100)
    return [len(one.ids) for one in tokenizer(str(models.minilm()), LENGTH).encode_batch(rows)]


def over_resting(side: Side) -> int | None:
    """Bytes that a step takes beyond what its process holds between steps; ``None`` where it cannot be run."""
    worker = Worker()
    try:
        worker.make(side.make, side.given)
        worker.run(1, {"rows": 1})  # the optimiser's state is there now, and so are the libraries
        resting, _ = worker.memory()
        worker.run(1)
        return worker.memory()[1] - resting
    except (Missing, Broken):
        return None
    finally:
        worker.close()


def _apart(ours: list[float], theirs: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
