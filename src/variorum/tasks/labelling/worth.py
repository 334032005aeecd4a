"""What labels by a language model are worth to a small model that learns from them, beside people's and with them."""

from __future__ import annotations

from collections.abc import Sequence

from variorum.tasks.labelling.correction import Labelled
from variorum.tasks.trials import Learn, Rows, Trial, trials

GOLD, MODEL, BOTH = "gold only", "model only", "both"


def weighted(texts: Sequence[str], labelled: Labelled) -> Rows:
    """The texts that got a label, each counting as much as the model was sure of it."""
    kept = [
        (text, label, float(sure))
        for text, label, sure in zip(texts, labelled.labels, labelled.confidence, strict=True)
        if label is not None
    ]
    return Rows([text for text, _, _ in kept], [label for _, label, _ in kept], [sure for _, _, sure in kept])


def worth(learn: Learn, gold: Rows, given: Rows, test: Rows, *, seeds: int = 3) -> list[Trial]:
    """The same learner with people's labels, with the model's, and with both; the gain is that over people's alone.

    Args:
        gold: rows that people labelled. given: rows that the model labelled, see :func:`weighted`.
        test: held-out rows that people labelled.
    """
    return trials(learn, {GOLD: gold, MODEL: given, BOTH: gold.and_(given)}, test, seeds=seeds)
