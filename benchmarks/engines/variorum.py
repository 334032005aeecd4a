"""variorum, through its Python face, as anyone calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.harness.texts import read


def encode(model: str, texts: str, weights: str = "") -> Callable[[], np.ndarray]:
    """Vectors of texts; with ``weights`` ("float32", "int8") by the model's inference form."""
    network, rows = loaded(model, weights), read(texts)
    return lambda: network.embed(rows).numpy()


def one_text(model: str, weights: str = "") -> Callable[[str], np.ndarray]:
    """The vector of one text, from its characters on."""
    network = loaded(model, weights)
    return lambda text: network.embed([text]).numpy()


def write(model: str, prompts: Sequence[Sequence[int]], new: int, weights: str = "") -> Callable[[], list[list[int]]]:
    """The likeliest ``new`` tokens after each prompt."""
    from variorum.inference.generate import generate

    network = loaded(model, weights)
    return lambda: [row.ids for row in generate(network, prompts, max_new_tokens=new)]


def nats(model: str, ids: Sequence[int], weights: str = "") -> Callable[[], float]:
    """The mean surprise of each token of a text after those before it, in nats."""
    import torch

    network, row = loaded(model, weights), torch.tensor([list(ids)])

    @torch.no_grad()
    def job() -> float:
        scores = network(row).logits[0, :-1].float()
        return float(torch.nn.functional.cross_entropy(scores, row[0, 1:]))

    return job


def loaded(model: str, weights: str = "") -> Any:
    """A checkpoint, prepared for inference where ``weights`` says how."""
    import variorum

    network = variorum.load(model, dtype="float32")
    if not weights:
        return network
    from variorum.inference.prepared import prepare

    return prepare(network, weights=weights)


def load(model: str) -> Callable[[bool], float | None]:
    """The call that loads a model; with ``read`` every weight is read once after it, and their sum returned."""
    from variorum.face import load

    def job(read: bool) -> float | None:
        network = load(model, head=None)
        return sum(float(p.sum()) for p in network.parameters()) if read else None

    return job
