"""Classification metrics from confusion matrices, which add up over groups of items.

A class without a single item and without a single prediction has no F1 and is left out of the macro mean;
a class that is missed entirely counts as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from variorum.tasks.metrics.intervals import Figure

    Counts = NDArray[np.int64]
    Floats = NDArray[np.float64]


def confusion(truth: ArrayLike, predicted: ArrayLike, classes: int) -> Counts:
    """Counts, [classes (true), classes (predicted)].

    Args:
        truth, predicted: class ids, [items].
    """
    import numpy as np

    t, p = np.asarray(truth, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    return np.bincount(t * classes + p, minlength=classes * classes).reshape(classes, classes)


def confusion_by_group(truth: ArrayLike, predicted: ArrayLike, groups: ArrayLike, classes: int) -> Counts:
    """One confusion matrix per group of items, [groups, classes, classes]; groups are numbered from 0."""
    import numpy as np

    t, p, g = (np.asarray(x, dtype=np.int64) for x in (truth, predicted, groups))
    count = int(g.max()) + 1
    cells = count * classes * classes
    return np.bincount((g * classes + t) * classes + p, minlength=cells).reshape(count, classes, classes)


def per_class_f1(counts: Counts) -> Floats:
    """F1 of each class, [..., classes]; NaN where a class neither occurs nor is predicted."""
    import numpy as np

    hits = np.diagonal(counts, axis1=-2, axis2=-1).astype(np.float64)
    total = counts.sum(-1) + counts.sum(-2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(total > 0, 2 * hits / total, np.nan))


def macro_f1(counts: Counts) -> Floats:
    """Mean F1 over the classes, [...]."""
    import numpy as np

    return np.asarray(np.nanmean(per_class_f1(counts), axis=-1))


def accuracy(counts: Counts) -> float:
    """Share of items on the diagonal."""
    import numpy as np

    return float(np.trace(counts) / counts.sum())


def leave_one_group_out(by_group: Counts) -> Floats:
    """Macro-F1 with each group of items left out in turn, [groups]; the jackknife's input."""
    return macro_f1(by_group.sum(0, keepdims=True) - by_group)


def balance(labels: Sequence[str]) -> dict[str, int]:
    """Items per label, most frequent first."""
    from collections import Counter

    return dict(sorted(Counter(labels).items(), key=lambda pair: (-pair[1], pair[0])))


def indicated_f1(given: NDArray[np.bool_], truth: NDArray[np.bool_]) -> Floats:
    """F1 of each label, [labels], of labels given and right [N, labels]; NaN where a label is neither."""
    import numpy as np

    total = given.sum(0) + truth.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(total > 0, 2 * (given & truth).sum(0) / total, np.nan))


def macro_f1_of(given: NDArray[np.bool_], truth: NDArray[np.bool_]) -> Figure:
    """Macro-F1 of labels given and right [N, labels], as a figure that can be resampled over items."""
    import numpy as np

    hits, sizes = (given & truth).astype(np.float64), given.astype(np.float64) + truth

    def figure(counts: Counts) -> Floats:
        total = counts @ sizes
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.nanmean(np.where(total > 0, 2 * (counts @ hits) / total, np.nan), axis=-1))

    return figure


def calibration_error(confidence: ArrayLike, right: ArrayLike, *, bins: int = 15) -> float:
    """Expected calibration error: how far confidence [N] lies from the share of right answers, over equal bins of
    confidence, weighed by their rows (Naeini et al. 2015)."""
    import numpy as np

    sure, good = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=np.float64)
    place = np.minimum((sure * bins).astype(int), bins - 1)
    apart = np.bincount(place, weights=good - sure, minlength=bins)
    return float(np.abs(apart).sum() / len(sure))
