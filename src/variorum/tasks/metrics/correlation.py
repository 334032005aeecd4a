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


def spearman_of(found: Any, right: Any) -> Figure:
    """Spearman's correlation as a figure that can be resampled; ranks are those among the items drawn."""
    from scipy.stats import spearmanr

    def figure(counts: NDArray[np.int64]) -> NDArray[np.float64]:
        drawn = (np.repeat(np.arange(len(right)), row) for row in counts)
        return np.array([spearmanr(found[which], right[which]).statistic for which in drawn])

    return figure
