"""From scores to labels: the model's own leaning taken out, and no answer where two labels are too near."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from variorum.tasks.zero_shot import Scorer

    Floats = NDArray[np.float64]

Prior = Literal["content-free", "texts", "none"]

#: Texts that say nothing (Zhao et al. 2021).
CONTENT_FREE = ("N/A", "[MASK]", "...")


@dataclass(frozen=True, kw_only=True)
class Correction:
    """How scores become labels.

    Attributes:
        prior: what the model leans to whatever the text, and is divided out: its answers to texts without content
            ("content-free", Zhao et al. 2021), their mean over the texts themselves ("texts", Zhou et al. 2024, for
            texts whose labels are about equally frequent), or "none".
        margin: the best label's probability has to be this much above the next one's; otherwise none is given.
    """

    by: Prior = "content-free"
    margin: float = 0.0

    def prior(self, scorer: Scorer) -> Floats | None:
        """The leaning [C], as probabilities; ``None`` where it is taken from the texts, or left in."""
        return shares(scorer.scores(CONTENT_FREE)).mean(0) if self.by == "content-free" else None


@dataclass(frozen=True)
class Labelled:
    """Labels of N texts.

    Attributes:
        names: of the C labels.
        labels: of each text; ``None`` where the model is too unsure.
        confidence: the probability of each text's best label, [N], also where it was withheld.
        probabilities: [N, C].
        prior: what was divided out, [C].
    """

    names: tuple[str, ...]
    labels: tuple[str | None, ...]
    confidence: Floats
    probabilities: Floats
    prior: Floats

    @property
    def withheld(self) -> int:
        """How many texts got no label."""
        return sum(one is None for one in self.labels)


def corrected(names: Sequence[str], scores: Floats, prior: Floats | None, how: Correction) -> Labelled:
    """Labels from log-scores [N, C] and what ``how`` says."""
    import numpy as np

    probabilities = shares(scores)
    if how.by == "none":
        prior = np.full(len(names), 1 / len(names))
    elif prior is None:
        prior = probabilities.mean(0)
    probabilities = probabilities / np.maximum(prior, np.finfo(float).tiny)
    probabilities /= probabilities.sum(1, keepdims=True)
    ordered = np.sort(probabilities, 1)
    sure = ordered[:, -1] - ordered[:, -2] >= how.margin
    best = probabilities.argmax(1)
    labels = tuple(names[i] if certain else None for i, certain in zip(best, sure, strict=True))
    return Labelled(tuple(names), labels, ordered[:, -1], probabilities, prior)


def shares(scores: Floats) -> Floats:
    """Softmax over labels of log-scores [N, C]."""
    import numpy as np

    weights = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(weights / weights.sum(1, keepdims=True))
