"""How far numbers agree with what is right: by rank, by line, and in size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from variorum.tasks.metrics.intervals import Figure


def agreement(found: Any, right: Any) -> dict[str, Any]:
    """Spearman's and Pearson's correlation (``None`` where one side is constant), and two mean errors."""
    from scipy.stats import pearsonr, spearmanr

    varies = len(right) > 1 and np.ptp(found) > 0 and np.ptp(right) > 0
    return {
        "spearman": float(spearmanr(found, right).statistic) if varies else None,
        "pearson": float(pearsonr(found, right).statistic) if varies else None,
        "mean_absolute": float(np.abs(found - right).mean()),
        "mean_square": float(((found - right) ** 2).mean()),
        "rows": len(right),
    }  # fmt: skip


def agreement_of(found: Any, right: Any) -> dict[str, Figure]:
    """Of :func:`agreement` what splits by items, by name."""
    from variorum.tasks.metrics.intervals import mean_of

    found = np.asarray(found)
    return {"spearman": spearman_of(found, right), "mean_absolute": mean_of(np.abs(found - right))}


def spearman_of(found: Any, right: Any) -> Figure:
    """Spearman's correlation as a figure that can be resampled; ranks are those among the items drawn. It has no value
    where either side is constant."""
    from scipy.stats import spearmanr

    def one(a: Any, b: Any) -> float:
        return float(spearmanr(a, b).statistic) if np.ptp(a) > 0 and np.ptp(b) > 0 else np.nan

    def figure(counts: NDArray[np.int64]) -> NDArray[np.float64]:
        drawn = (np.repeat(np.arange(len(right)), row) for row in counts)
        return np.array([one(found[which], right[which]) for which in drawn])

    return figure
