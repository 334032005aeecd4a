"""CTranslate2: transformers' checkpoint through its own converter; int8 is its compute type."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.engines.pooled import mean, padded, tokenizer
from benchmarks.harness.batches import by_budget
from benchmarks.harness.texts import read
from benchmarks.harness.worker import THREADS


def converted(model: str, into: str) -> None:
    """Write its form of a published directory."""
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(model).convert(into)


def encode(model: str, converted: str, texts: str, longest: int, weights: str) -> Callable[[], np.ndarray]:
    """Vectors of texts, by a token budget; it takes lengths and pads inside."""
    import ctranslate2

    network = ctranslate2.Encoder(converted, compute_type=weights, intra_threads=THREADS)
    pieces, rows = tokenizer(model, longest), read(texts)

    def job() -> np.ndarray:
        ids = [found.ids for found in pieces.encode_batch(rows)]
        vectors: dict[int, np.ndarray] = {}
        for which in by_budget([len(row) for row in ids]):
            given = [ids[i] for i in which]
            states = np.array(network.forward_batch(given).last_hidden_state)
            vectors.update(zip(which, mean(states, padded(given)[1]), strict=True))
        return np.stack([vectors[i] for i in range(len(rows))])

    return job


def one_text(model: str, converted: str) -> Callable[[str], np.ndarray]:
    """The vector of one text, from its characters on."""
    import ctranslate2

    network = ctranslate2.Encoder(converted, compute_type="float32", intra_threads=THREADS)
    pieces = tokenizer(model)

    def job(text: str) -> np.ndarray:
        given = [pieces.encode(text).ids]
        return mean(np.array(network.forward_batch(given).last_hidden_state), padded(given)[1])

    return job


def write(
    converted: str, words: Sequence[str], prompts: Sequence[Sequence[int]], new: int, weights: str
) -> Callable[[], list[list[int]]]:
    """The likeliest ``new`` tokens after each prompt. It reads words, so ``words`` names every token."""
    import ctranslate2

    network = ctranslate2.Generator(converted, compute_type=weights, intra_threads=THREADS)
    given = [[words[i] for i in row] for row in prompts]

    def job() -> list[list[int]]:
        found = network.generate_batch(
            given, max_length=new, min_length=new, sampling_topk=1, include_prompt_in_result=False
        )
        return [one.sequences_ids[0] for one in found]

    return job
