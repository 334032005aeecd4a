"""Sentence vectors of 200 texts of real lengths, from characters to vectors: MiniLM and BERT-base, float32 and int8.

transformers reads the texts in arrival order, 32 at a time, as people run it; beside it stands its best, sorted by a
token budget. The rate of float32 products is taken in the same run: no engine of that type can be faster.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.harness import batches, check, machine, models, texts
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

COUNT, QUICK = 200, 64
LONGEST = 128
BASE = "transformers, arrival order"
BUDGET = "transformers, token budget"
ONNX, CTRANSLATE, SENTENCE = "ONNX Runtime", "CTranslate2", "sentence-transformers"
ENGINES = "benchmarks.engines"
EXPORTED, CONVERTED = f"{ENGINES}.onnx:exported", f"{ENGINES}.ctranslate:converted"
ROUNDS = {"minilm": 5, "bert-base": 2}


@dataclasses.dataclass(frozen=True)
class Model:
    """A checkpoint, where its forms for the other engines lie, and the texts it reads."""

    name: str
    place: str
    scratch: Path
    texts: str

    @property
    def onnx(self) -> Path:
        """The folder of its ONNX graphs."""
        return self.scratch / f"{self.name}-onnx"

    @property
    def converted(self) -> str:
        """The folder of CTranslate2's form."""
        return str(self.scratch / f"{self.name}-ctranslate2")


def measure(quick: bool) -> list[Job]:
    """Both models in both types."""
    rows = texts.snippets(QUICK if quick else COUNT)
    jobs = []
    with tempfile.TemporaryDirectory(prefix="variorum-bench-") as folder:
        scratch = Path(folder)
        kept = texts.kept(rows, scratch / "texts.json")
        for name, made in (("minilm", lambda: models.minilm()), ("bert-base", lambda: models.bert_base(scratch))):
            model = Model(name, str(made()), scratch, kept)
            for what, into in ((EXPORTED, model.onnx), (CONVERTED, model.converted)):
                models.prepared(what, model=model.place, into=str(into))
            found = interleaved(sides(model), rounds=1 if quick else ROUNDS[name])
            jobs += [_job(model, weights, found) for weights in ("float32", "int8")]
    return jobs


def sides(model: Model) -> list[Side]:
    """Everyone who takes part, and the machine itself."""
    read = {"model": model.place, "texts": model.texts}
    cut = {**read, "longest": LONGEST}
    found = [
        Side(BASE, f"{ENGINES}.transformers:encode", {**cut, "order": "arrival"}),
        Side(BUDGET, f"{ENGINES}.transformers:encode", {**cut, "order": "budget"}),
        Side(SENTENCE, f"{ENGINES}.sentence:encode", read),
        Side(PLAIN, f"{ENGINES}.variorum:encode", read),
        machine.SGEMM,
    ]
    for weights in ("float32", "int8"):
        graph = {**cut, "graph": str(model.onnx / f"{weights}.onnx")}
        form = {**cut, "converted": model.converted, "weights": weights}
        found += [
            Side(named(ONNX, weights), f"{ENGINES}.onnx:encode", graph),
            Side(named(CTRANSLATE, weights), f"{ENGINES}.ctranslate:encode", form),
            Side(named(OURS, weights), f"{ENGINES}.variorum:encode", {**read, "weights": weights}),
        ]
    return found


def _job(model: Model, weights: str, found: dict[str, Timed]) -> Job:
    exact = weights == "float32"
    ours = named(OURS, weights)
    peers = [named(ONNX, weights), named(CTRANSLATE, weights), *([SENTENCE] if exact else [])]
    found = {
        name: found[name] for name in [BASE, BUDGET, *peers, ours, *([PLAIN] if exact else []), machine.SGEMM.name]
    }
    rate = machine.sgemm_rate(found.pop(machine.SGEMM.name))
    ratio, right = ratios(found, BASE), found[BASE].answer
    lengths, work = _work(model)
    figures, faults, rows = compared(found, ours, BASE, peers), failures(found), []
    if exact and rate and found[ours].median:
        figures["of the rate of products"] = work / found[ours].median / rate
    for name, one in found.items():
        differs = None if one.answer is None or right is None else _differs(one.answer, right, exact)
        if name.startswith(OURS) and differs is not None and not _right(differs, exact):
            faults.append(f"{name} differs from transformers: {differs:.2g}")
        rows.append({
            "engine": name, "seconds": one.median, "texts/s": per_second(len(lengths), one),
            "GFLOP/s": per_second(work / 1e9, one), "over transformers": ratio.get(name),
            "differs by" if exact else "cosine": differs,
            **({"task score": _score(one.answer)} if model.name == "minilm" else {}), "note": one.note,
        })  # fmt: skip
    facts = {
        "texts": len(lengths), "tokens": sum(lengths), "longest": max(lengths),
        "padding in arrival order": batches.padding(lengths, batches.in_arrival_order(len(lengths))),
        "by token budget": batches.padding(lengths, batches.by_budget(lengths)),
        "float32 products GFLOP/s": None if rate is None else rate / 1e9,
    }  # fmt: skip
    return Job(name=f"encode-{model.name}-{weights}", figures=figures, sides=rows, facts=facts, faults=faults)


def _work(model: Model) -> tuple[list[int], float]:
    """The lengths of the texts in tokens, and the FLOPs that all of them take without padding."""
    from benchmarks.engines.pooled import tokenizer
    from variorum.family import find

    name = "all-MiniLM-L6-v2" if model.name == "minilm" else "bert-base-uncased"
    spec = find(name)
    lengths = [len(one.ids) for one in tokenizer(model.place, LONGEST).encode_batch(texts.read(model.texts))]
    cost = {length: spec.size(head=None, context=length, dtype="float32").forward_flops for length in set(lengths)}
    return lengths, float(sum(cost[length] for length in lengths))


def _differs(found: np.ndarray, right: np.ndarray, exact: bool) -> float:
    return check.apart(found, right) if exact else check.cosine(found, right)


def _right(differs: float, exact: bool) -> bool:
    return differs <= check.ROUNDING if exact else differs >= check.LEAST_COSINE


def _score(vectors: np.ndarray | None) -> float | None:
    """How well what people made of the texts can be read off the vectors: correlation on texts that were not learned.

    It shows what int8 costs at a task, and only that: the vectors were not made to tell praise from blame.
    """
    if vectors is None:
        return None
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import cross_val_predict

    rated = np.array(texts.ratings(len(vectors)))
    return float(np.corrcoef(cross_val_predict(Ridge(1.0), vectors, rated, cv=5), rated)[0, 1])
