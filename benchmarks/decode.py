"""One text written by a LLaMA of 135 million parameters (SmolLM2, real weights): tokens a second, float32 and int8.

Writing one token reads every weight once, so no engine can be faster than memory gives them; that rate is taken in the
same run. The prompt's reading is part of the time.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from benchmarks.encode import CTRANSLATE, ENGINES
from benchmarks.harness import check, machine, models, texts
from benchmarks.harness.job import Job
from benchmarks.harness.turns import (
    OURS,
    PLAIN,
    Side,
    Timed,
    compared,
    failures,
    interleaved,
    named,
    per_second,
    ratios,
)

BASE, LLAMA = "transformers", "llama.cpp"
PROMPT, NEW, QUICK_NEW = 16, 64, 16
SCORED = 1024
ROUNDS = 3
CONVERTED = {LLAMA: f"{ENGINES}.llama:converted", CTRANSLATE: f"{ENGINES}.ctranslate:converted"}
#: Of a parameter; and all are read for a token, since the table of words is also the head.
BYTES = {"float32": 4.0, "int8": 1.0}
PARAMETERS = 134_515_008
#: Tokens before the first that may differ: two candidates can be nearer to each other than float32 rounds.
LEAST_AGREEING = 0.9


def measure(quick: bool) -> list[Job]:
    """Both types in one run."""
    new = QUICK_NEW if quick else NEW
    with tempfile.TemporaryDirectory(prefix="variorum-bench-") as folder:
        scratch = Path(folder)
        model = str(models.smollm2(scratch))
        models.prepared(CONVERTED[LLAMA], source=str(models.smollm2_gguf()), into=f"{folder}/gguf")
        models.prepared(CONVERTED[CTRANSLATE], model=model, into=f"{folder}/ctranslate2")
        tokenizer = Path(model) / "tokenizer.json"
        asked = {"prompts": [texts.written(tokenizer, PROMPT)], "new": new}
        sides = [
            Side(BASE, f"{ENGINES}.transformers:write", {"model": model, **asked}),
            Side(PLAIN, f"{ENGINES}.variorum:write", {"model": model, **asked}),
            machine.BANDWIDTH,
        ]
        form = {"converted": f"{folder}/ctranslate2", "words": texts.words(tokenizer), **asked}
        for weights in BYTES:
            own = {"model": model, "weights": weights, **asked}
            sides += [
                Side(
                    named(LLAMA, weights), f"{ENGINES}.llama:write", {"model": f"{folder}/gguf/{weights}.gguf", **asked}
                ),
                Side(named(CTRANSLATE, weights), f"{ENGINES}.ctranslate:write", {**form, "weights": weights}),
                Side(named(OURS, weights), f"{ENGINES}.variorum:write", own),
            ]
        found = interleaved(sides, rounds=1 if quick else ROUNDS)
        surprise = _surprise(model, texts.written(tokenizer, SCORED, start=PROMPT))
    return [_job(weights, found, new, surprise) for weights in BYTES]


def _surprise(model: str, ids: list[int]) -> dict[str, Timed]:
    """Nats a token of a chapter, by the type of our weights."""
    sides = [Side(w, f"{ENGINES}.variorum:nats", {"model": model, "ids": ids, "weights": w}) for w in BYTES]
    return interleaved(sides, rounds=0)


def _job(weights: str, found: dict[str, Timed], new: int, surprise: dict[str, Timed]) -> Job:
    exact, ours = weights == "float32", named(OURS, weights)
    peers = [named(LLAMA, weights), named(CTRANSLATE, weights)]
    memory = machine.bandwidth(found[machine.BANDWIDTH.name])
    found = {name: found[name] for name in [BASE, *peers, ours, *([PLAIN] if exact else [])]}
    figures, ratio = compared(found, ours, BASE, peers), ratios(found, BASE)
    nats = {name: one.answer for name, one in surprise.items()}
    if not exact and None not in nats.values():
        figures["perplexity over float32"] = math.exp(nats["int8"] - nats["float32"])
    rows, faults = rows_of(found, right=found[BASE].answer, judged=exact)
    for row in rows:
        one = found[str(row["engine"])]
        size = BYTES["float32" if row["engine"] == BASE else weights] * PARAMETERS
        row |= {"tokens/s": per_second(new, one), "over transformers": ratio.get(str(row["engine"])),
                "weights read GB/s": per_second(new * size / 1e9, one)}  # fmt: skip
    facts = {
        "prompt": PROMPT, "new tokens": new, "memory GB/s": None if memory is None else memory / 1e9,
        "perplexity": None if nats[weights] is None else math.exp(nats[weights]), "over tokens": SCORED,
    }  # fmt: skip
    return Job(name=f"decode-{weights}", figures=figures, sides=rows, facts=facts, faults=[*failures(found), *faults])


def rows_of(
    found: dict[str, Timed], *, right: list[list[int]], judged: bool
) -> tuple[list[dict[str, object]], list[str]]:
    """A row a side with how far it writes what ``right`` is; faults where ours does not, if it is ``judged``."""
    rows: list[dict[str, object]] = []
    faults = []
    for name, one in found.items():
        same = None if one.answer is None or right is None else check.agreeing(one.answer, right)
        if judged and name.startswith(OURS) and same is not None and same < LEAST_AGREEING:
            faults.append(f"{name} writes other tokens than transformers: {same:.0%} are the same")
        rows.append({"engine": name, "same tokens": same, "note": one.note})
    return rows, faults
