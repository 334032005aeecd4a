"""``python -m tests.tools.written JOB ...``: figures of tasks that score, find and write texts, on real data.

Data come from ``make fetch``. Figures are printed as lines of JSON, the baseline's beside the model's. The jobs are the
functions below; without a name all are done, which takes most of an hour on one core.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import mean, stdev
from typing import Any

from tests.tools import datasets
from tests.tools.weights import path

SEEDS = (0, 1, 2)
Figures = dict[str, Any]


def found() -> Iterator[Figures]:
    """Spanish verses found by the English ones, by MiniLM as it is and after learning from 1,000 pairs."""
    from variorum.tasks.embed import Embedder

    model = f"{path('minilm')}"
    pairs = [(row["first"], row["second"]) for row in spread(datasets.english_spanish(), 1_500)]
    learned, test = pairs[:1_000], pairs[1_000:]
    plain = Embedder(model=model, epochs=1, learning_rate=1e-12, validation=0.0).fit(learned[:32])
    yield {"job": "found", "model": "MiniLM as it is", **plain.evaluate(test)}
    runs = []
    for seed in SEEDS:
        task = Embedder(model=model, epochs=2, batch_size=64, max_length=64, validation=0.0, random_state=seed)
        begun = time.perf_counter()
        figures = task.set_params(learning_rate=3e-4).fit(learned).evaluate(test)
        runs.append(figures | {"seconds": time.perf_counter() - begun})
    yield {"job": "found", "model": "MiniLM after 1,000 pairs", **_over_seeds(runs)}


def rewritten() -> Iterator[Figures]:
    """Verses of 1769 in today's English: a nano T5 from nothing beside copying and the nearest verse's rewriting."""
    from variorum.tasks.metrics.text import bleu, chrf, rouge_l
    from variorum.tasks.seq2seq import Seq2Seq

    rows = [row for row in spread(datasets.old_new(), 12_000) if len(row["first"]) < 160]
    sources, targets = ([row[side] for row in rows] for side in ("first", "second"))
    learned, test = slice(400, 6_400), slice(0, 400)
    right = targets[test]
    for name, said in (
        ("copying", sources[test]), ("nearest verse", nearest(sources[learned], targets[learned], sources[test]))
    ):  # fmt: skip
        figures = {"chrf": chrf(said, right), "bleu": bleu(said, right), "rouge_l": rouge_l(said, right)}
        yield {"job": "rewritten", "model": name, **figures, "rows": len(right)}
    runs = []
    for seed in SEEDS:
        task = Seq2Seq(epochs=4, batch_size=32, learning_rate=5e-3, max_target_length=64, max_length=64,
                       random_state=seed, validation=0.05)  # fmt: skip
        begun = time.perf_counter()
        figures = task.fit(sources[learned], targets[learned]).evaluate(sources[test], right)
        runs.append(figures | {"seconds": time.perf_counter() - begun})
    yield {"job": "rewritten", "model": "nano T5 from nothing", **_over_seeds(runs)}


def spread(rows: Sequence[datasets.Row], most: int) -> list[datasets.Row]:
    """So many rows, the same ones everywhere, in an order that has nothing to do with theirs."""
    return sorted(rows, key=lambda row: hashlib.sha256(row["id"].encode()).digest())[:most]


def nearest(sources: Sequence[str], targets: Sequence[str], asked: Sequence[str]) -> list[str]:
    """The target of the source that is most like each text, by TF-IDF."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    known = words.fit_transform(sources)
    return [targets[row] for row in (words.transform(asked) @ known.T).toarray().argmax(1)]


def scored() -> Iterator[Figures]:
    """A chapter of Emma under SmolLM2, read as a whole and in windows."""
    import variorum
    from variorum.inference.likelihood import Windows, score
    from variorum.study.corpora import chapters

    (place,) = path("smollm2").glob("*.gguf")  # type: ignore[union-attr]
    model = variorum.load(place)
    text = next(one.text for one in chapters() if one.name == "Emma 1")
    for name, windows in (
        ("whole", Windows(window=8192)), ("windows of 512, 256 new", Windows(window=512, stride=256)),
        ("windows of 512, none shared", Windows(window=512, stride=512)),
    ):  # fmt: skip
        begun = time.perf_counter()
        (own,) = score(model, [text], windows=windows)
        yield {"job": "scored", "model": "SmolLM2-135M", "read": name, "tokens": own.tokens, "bytes": own.bytes,
               "perplexity": own.perplexity, "bits_per_byte": own.bits_per_byte,
               "seconds": time.perf_counter() - begun}  # fmt: skip


def _over_seeds(runs: Sequence[Figures]) -> Figures:
    """Mean and standard deviation of each figure."""
    return {
        name: [mean(run[name] for run in runs), stdev(run[name] for run in runs)]
        for name in runs[0] if isinstance(runs[0][name], float)
    } | {"seeds": len(runs)}  # fmt: skip


JOBS: dict[str, Callable[[], Iterator[Figures]]] = {"found": found, "rewritten": rewritten, "scored": scored}


def main(names: Sequence[str]) -> int:
    for name in names or JOBS:
        for figures in JOBS[name]():
            print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in figures.items()}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
