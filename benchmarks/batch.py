"""Eight prompts of unequal lengths continued together, end to end: GPT-2's shape and LLaMA-135M, float32 and int8.

transformers pads the prompts on the left. GPT-2's weights are random, so its int8 answers say little and are not judged
by their tokens.
"""

from __future__ import annotations

import dataclasses
import random
import tempfile
from pathlib import Path

from benchmarks.decode import BASE, CONVERTED, rows_of
from benchmarks.encode import CTRANSLATE, ENGINES
from benchmarks.harness import models, texts
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

WEIGHTS = ("float32", "int8")
PROMPTS = (12, 14, 16, 18, 20, 23, 27, 32)
NEW, QUICK_NEW = 32, 8
ROUNDS = 2
GPT2_VOCAB = 50_257


@dataclasses.dataclass(frozen=True)
class Model:
    """A decoder, the form of it that is converted for CTranslate2, its tokens' names and what it continues."""

    name: str
    place: Path
    source: Path
    words: list[str]
    prompts: list[list[int]]


def measure(quick: bool) -> list[Job]:
    """Both models in both types."""
    new, jobs = QUICK_NEW if quick else NEW, []
    for made in (gpt2, llama):
        with tempfile.TemporaryDirectory(prefix="variorum-bench-") as folder:
            model = made(Path(folder))
            converted = f"{folder}/ctranslate2"
            models.prepared(CONVERTED[CTRANSLATE], model=str(model.source), into=converted)
            found = interleaved(sides(model, converted, new), rounds=1 if quick else ROUNDS)
            jobs += [_job(model, weights, found, new) for weights in WEIGHTS]
    return jobs


def gpt2(scratch: Path) -> Model:
    """GPT-2's shape; any ids will do as prompts."""
    place = models.gpt2(scratch)
    drawn = random.Random(0)
    prompts = [[drawn.randrange(GPT2_VOCAB) for _ in range(length)] for length in PROMPTS]
    words = [models.WORD.format(i) for i in range(GPT2_VOCAB)]
    return Model("gpt2", place, models.with_words(place, GPT2_VOCAB, scratch / "gpt2-words"), words, prompts)


def llama(scratch: Path) -> Model:
    """SmolLM2's real weights, and prompts from a novel."""
    place = models.smollm2(scratch)
    tokenizer, begins = place / "tokenizer.json", [sum(PROMPTS[:i]) for i in range(len(PROMPTS))]
    prompts = [texts.written(tokenizer, length, start) for length, start in zip(PROMPTS, begins, strict=True)]
    return Model("llama", place, place, texts.words(tokenizer), prompts)


def sides(model: Model, converted: str, new: int) -> list[Side]:
    """Everyone who takes part."""
    asked = {"prompts": model.prompts, "new": new}
    own = {"model": str(model.place), **asked}
    found = [
        Side(BASE, f"{ENGINES}.transformers:write", own),
        Side(PLAIN, f"{ENGINES}.variorum:write", own),
    ]
    for weights in WEIGHTS:
        form = {"converted": converted, "words": model.words, "weights": weights, **asked}
        found += [
            Side(named(CTRANSLATE, weights), f"{ENGINES}.ctranslate:write", form),
            Side(named(OURS, weights), f"{ENGINES}.variorum:write", {**own, "weights": weights}),
        ]
    return found


def _job(model: Model, weights: str, found: dict[str, Timed], new: int) -> Job:
    exact, ours, peer = weights == "float32", named(OURS, weights), named(CTRANSLATE, weights)
    found = {name: found[name] for name in [BASE, peer, ours, *([PLAIN] if exact else [])]}
    ratio = ratios(found, BASE)
    rows, faults = rows_of(found, right=found[BASE].answer, judged=exact)
    for row in rows:
        one = found[str(row["engine"])]
        row |= {"tokens/s": per_second(len(PROMPTS) * new, one), "seconds": one.median,
                "over transformers": ratio.get(str(row["engine"]))}  # fmt: skip
    return Job(
        name=f"batch-{model.name}-{weights}", figures=compared(found, ours, BASE, [peer]), sides=rows,
        facts={"prompts of": list(PROMPTS), "new tokens each": new}, faults=[*failures(found), *faults],
    )  # fmt: skip
