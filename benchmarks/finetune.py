"""MiniLM fine-tuned to four classes on snippets of real lengths, 32 a step, and its answers to 200 texts.

The peer of training is a plain loop over transformers' model, each batch padded to its longest row, with the same
weights, rows, dropout and optimiser; before the clock runs both take three steps without dropout, and their losses must
agree. The peer of answering reads texts as people run it, in arrival order, 32 at a time; beside it stands its best.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import batches, check, models, texts
from benchmarks.harness.job import Job
from benchmarks.harness.turns import OURS, Side, compared, failures, interleaved, per_second, ratios

ROWS, STEPS, LONGEST = 32, 4, 128
CHECKED = 3
BASE, BUDGET = "transformers", "transformers, token budget"
ENGINE = "benchmarks.engines.finetune"
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
#: Of losses after a few steps without dropout: both sides round, in different orders.
AGREE = 1e-4


def measure(quick: bool) -> list[Job]:
    """Training, then answering."""
    rounds = 1 if quick else 5
    with tempfile.TemporaryDirectory(prefix="variorum-bench-") as folder:
        scratch = Path(folder)
        labels = headed(scratch / "with", scratch / "without")
        return [_training(scratch, labels, rounds), _answering(scratch, rounds)]


def headed(place: Path, still: Path) -> tuple[str, ...]:
    """MiniLM with a fresh head for the snippets' domains, and the same without dropout; returns their names."""
    import variorum
    from variorum.checkpoint.load import Fresh
    from variorum.text.corpora import sentiment

    names = tuple(sorted({one.domain for one in sentiment()}))
    network = variorum.load(models.minilm(), head="sequence_classification", fresh_head=Fresh(labels=names))
    for where in (place, still):
        network.save(where)
        (where / "variorum-manifest.json").unlink()  # another config is put beside the same weights
    config = json.loads((still / "config.json").read_bytes())
    (still / "config.json").write_text(json.dumps(config | dict.fromkeys(DROPOUTS, 0.0) | {"classifier_dropout": 0.0}))
    return names


def _training(scratch: Path, labels: tuple[str, ...], rounds: int) -> Job:
    useful, padded = drawn(scratch / "data.npz", labels)
    given = {"model": str(scratch / "with"), "data": str(scratch / "data.npz")}
    sides = [Side(BASE, f"{ENGINE}:theirs", given), Side(OURS, f"{ENGINE}:ours", given)]
    still = {"model": str(scratch / "without"), "steps": CHECKED}
    checked = interleaved([Side(side.name, side.make, {**side.given, **still}) for side in sides], rounds=0)
    found = interleaved(sides, rounds=rounds, calls=STEPS)
    faults = failures(found | checked)
    losses = {name: one.answer for name, one in checked.items()}
    apart = None if None in losses.values() else _apart(losses[OURS], losses[BASE])
    if apart is not None and apart > AGREE:
        faults.append(f"losses differ from transformers' by {apart:.1e} of theirs")
    ratio = ratios(found, BASE)
    rows = [
        {"engine": name, "useful tokens/s": per_second(useful, one), "rows/s": per_second(ROWS, one),
         "over transformers": ratio.get(name), "note": one.note}
        for name, one in found.items()
    ]  # fmt: skip
    facts = {"rows": ROWS, "useful tokens": useful, "padding": padded, "losses differ by": apart}
    return Job(name="finetune-minilm", figures=compared(found, OURS, BASE, []), sides=rows, facts=facts, faults=faults)


def _answering(scratch: Path, rounds: int) -> Job:
    rows = texts.snippets(200)
    read = {"model": str(scratch / "with"), "texts": texts.kept(rows, scratch / "texts.json"), "longest": LONGEST}
    found = interleaved([
        Side(BASE, f"{ENGINE}:their_answers", {**read, "order": "arrival"}),
        Side(BUDGET, f"{ENGINE}:their_answers", {**read, "order": "budget"}),
        Side(OURS, f"{ENGINE}:our_answers", read),
    ], rounds=rounds)  # fmt: skip
    faults, right, ratio = failures(found), found[BASE].answer, ratios(found, BASE)
    differs = {name: None if one.answer is None or right is None else check.apart(one.answer, right)
               for name, one in found.items()}  # fmt: skip
    if differs[OURS] is not None and differs[OURS] > check.ROUNDING:
        faults.append(f"probabilities differ from transformers' by {differs[OURS]:.2g}")
    table = [
        {"engine": name, "texts/s": per_second(len(rows), one), "over transformers": ratio.get(name),
         "differs by": differs[name], "note": one.note}
        for name, one in found.items()
    ]  # fmt: skip
    figures = compared(found, OURS, BASE, [])
    return Job(name="predict-minilm", figures=figures, sides=table, facts={"texts": len(rows)}, faults=faults)


def drawn(place: Path, labels: tuple[str, ...]) -> tuple[int, float]:
    """Write the batches; returns the real tokens of one, and how many are padded for each real one."""
    from benchmarks.engines.pooled import tokenizer
    from variorum.text.corpora import sentiment

    chosen = random.Random(1).sample(sentiment(), STEPS * ROWS)
    encoded = tokenizer(str(models.minilm()), LONGEST).encode_batch([one.text for one in chosen])
    lengths = np.array([len(one.ids) for one in encoded])
    ids = np.zeros((len(chosen), lengths.max()), np.int64)
    for row, one in zip(ids, encoded, strict=True):
        row[: len(one.ids)] = one.ids
    arrays: dict[str, Any] = {
        "input_ids": ids, "attention_mask": (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64),
        "labels": np.array([labels.index(one.domain) for one in chosen]),
    }  # fmt: skip
    np.savez(place, **{name: value.reshape(STEPS, ROWS, *value.shape[1:]) for name, value in arrays.items()})
    grouped = batches.in_arrival_order(len(chosen), ROWS)
    return int(lengths.sum() / STEPS), batches.padding(lengths.tolist(), grouped)


def _apart(ours: list[float], theirs: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
