"""sentence-transformers: what most people embed texts with; it sorts by length itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.texts import read


def encode(model: str, texts: str) -> Callable[[], np.ndarray]:
    """Vectors of texts, 32 at a time."""
    network, rows = _network(model), read(texts)
    return lambda: np.asarray(network.encode(rows, batch_size=32, show_progress_bar=False))


def one_text(model: str) -> Callable[[str], np.ndarray]:
    """The vector of one text."""
    network = _network(model)
    return lambda text: np.asarray(network.encode([text], show_progress_bar=False))


def _network(model: str) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(model, device="cpu")
