"""Whether a fast answer is also the right one. A fast wrong answer is a fault, not a result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Largest difference of float32 vectors, as a share of their spread: both sides round, in different orders.
ROUNDING = 1e-3
#: int8 is not exact; what is left of its vectors has to point where the exact ones do.
LEAST_COSINE = 0.95


def apart(found: np.ndarray, right: np.ndarray) -> float:
    """The largest difference as a share of the spread of ``right`` over its rows; infinite where shapes differ.

    Args:
        found, right: a vector a row, [N, D].
    """
    if found.shape != right.shape or not np.isfinite(found).all():
        return float("inf")
    spread = float((right - right.mean(0)).std()) or 1.0
    return float(np.abs(found.astype(np.float64) - right).max()) / spread


def apart_alone(found: np.ndarray, right: np.ndarray) -> float:
    """The same of a single vector, as a share of the spread of its own values."""
    return apart(found.reshape(-1, 1), right.reshape(-1, 1))


def cosine(found: np.ndarray, right: np.ndarray) -> float:
    """The mean cosine between rows, after the mean row of ``right`` is taken from both: 1 is the same, 0 is chance."""
    if found.shape != right.shape or not np.isfinite(found).all():
        return -1.0
    a, b = found - right.mean(0), right - right.mean(0)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(1) / np.maximum(norms, 1e-30)).mean())


def agreeing(found: Sequence[Sequence[int]], right: Sequence[Sequence[int]]) -> float:
    """The share of each row's tokens before the first that differs, over all rows."""
    total = sum(len(row) for row in right)
    if len(found) != len(right) or not total:
        return 0.0
    same = 0
    for row, other in zip(found, right, strict=True):
        pairs = zip(row, other, strict=False)
        same += next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(row), len(other)))
    return same / total
