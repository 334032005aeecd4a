"""One text of 16, 40 and 128 tokens, from characters to a vector, MiniLM: the median and the 95th percentile.

Every engine runs in a process of its own, and sleeps while another works.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.encode import BASE, CONVERTED, CTRANSLATE, ENGINES, EXPORTED, ONNX, SENTENCE
from benchmarks.harness import check, models, texts
from benchmarks.harness.job import Job
from benchmarks.harness.turns import OURS, PLAIN, Side, Timed, compared, failures, interleaved_cases, ratios

LENGTHS = (16, 40, 128)
TRANSFORMERS = BASE.partition(",")[0]
PEERS = (ONNX, CTRANSLATE, SENTENCE)
ROUNDS, CALLS = 8, 10


def measure(quick: bool) -> list[Job]:
    """Every length, in the same processes."""
    model = str(models.minilm())
    cases = [{"text": texts.exact(Path(model) / "tokenizer.json", length)} for length in LENGTHS]
    with tempfile.TemporaryDirectory(prefix="variorum-bench-") as folder:
        onnx, converted = f"{folder}/onnx", f"{folder}/ctranslate2"
        models.prepared(EXPORTED, model=model, into=onnx)
        models.prepared(CONVERTED, model=model, into=converted)
        sides = [
            Side(TRANSFORMERS, f"{ENGINES}.transformers:one_text", {"model": model}),
            Side(SENTENCE, f"{ENGINES}.sentence:one_text", {"model": model}),
            Side(ONNX, f"{ENGINES}.onnx:one_text", {"model": model, "graph": f"{onnx}/float32.onnx"}),
            Side(CTRANSLATE, f"{ENGINES}.ctranslate:one_text", {"model": model, "converted": converted}),
            Side(OURS, f"{ENGINES}.variorum:one_text", {"model": model, "weights": "float32"}),
            Side(PLAIN, f"{ENGINES}.variorum:one_text", {"model": model}),
        ]
        found = interleaved_cases(sides, cases, rounds=2 if quick else ROUNDS, calls=CALLS)
    return [_job(length, one) for length, one in zip(LENGTHS, found, strict=True)]


def _job(length: int, found: dict[str, Timed]) -> Job:
    ratio, right = ratios(found, TRANSFORMERS), found[TRANSFORMERS].answer
    faults, rows = failures(found), []
    for name, one in found.items():
        differs = None if one.answer is None or right is None else check.apart_alone(one.answer, right)
        if name.startswith(OURS) and differs is not None and differs > check.ROUNDING:
            faults.append(f"{name} differs from transformers: {differs:.2g}")
        rows.append({
            "engine": name, "median ms": _ms(one.median), "95 % within ms": _ms(one.percentile(0.95)),
            "over transformers": ratio.get(name), "differs by": differs, "note": one.note,
        })  # fmt: skip
    figures = compared(found, OURS, TRANSFORMERS, PEERS)
    return Job(name=f"latency-{length}", figures=figures, sides=rows, facts={"tokens": length}, faults=faults)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds
