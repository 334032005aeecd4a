"""How far two who labelled the same items agree, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variorum.errors import UsageError
from variorum.tasks.metrics.intervals import Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 2000


@dataclass(frozen=True)
class Agreement:
    """Agreement with people's labels.

    Attributes:
        items: that people have labelled; answered: of them, those that the other one labelled too.
        accuracy: share of the answered ones with the same label.
        kappa: Cohen's, 0 where they agree as often as by chance; the interval is that of a bootstrap over items.
    """

    items: int
    answered: int
    accuracy: Interval
    kappa: Interval


def agreement(
    gold: Sequence[str], given: Sequence[str | None], *, resamples: int = RESAMPLES, seed: int = 0
) -> Agreement:
    """How far ``given`` labels agree with ``gold``; items without a given label are counted, not judged.

    Raises:
        UsageError: no item has both.
    """
    import numpy as np

    pairs = [(one, other) for one, other in zip(gold, given, strict=True) if other is not None]
    if not pairs:
        raise UsageError("no item of the gold sample has got a label", remedy="lower the margin, or give more gold")
    names = sorted({name for pair in pairs for name in pair})
    place = {name: i for i, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)))
    for one, other in pairs:
        counts[place[one], place[other]] += 1
    drawn = np.random.default_rng(seed).multinomial(len(pairs), counts.ravel() / len(pairs), size=resamples)
    samples = drawn.reshape(resamples, *counts.shape).astype(float)
    accuracy = np.trace(samples, axis1=1, axis2=2) / len(pairs)
    return Agreement(
        items=len(gold),
        answered=len(pairs),
        accuracy=_interval(float(np.trace(counts) / len(pairs)), accuracy),
        kappa=_interval(float(kappa(counts)), kappa(samples)),
    )


def kappa(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cohen's kappa of confusion matrices [..., C, C] (Cohen 1960); 0 where only one label occurs."""
    import numpy as np

    total = counts.sum((-2, -1))
    agreed = np.trace(counts, axis1=-2, axis2=-1) / total
    chance = (counts.sum(-1) * counts.sum(-2)).sum(-1) / total**2
    return np.where(chance < 1, (agreed - chance) / np.where(chance < 1, 1 - chance, 1), 0.0)


def _interval(value: float, samples: NDArray[np.float64]) -> Interval:
    import numpy as np

    low, high = np.quantile(samples, (0.025, 0.975))
    return Interval(value, float(low), float(high))
