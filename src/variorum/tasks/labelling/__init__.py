"""Labels by a model that was never trained on them, as honest as a sample of people's labels can make them.

A :class:`~variorum.tasks.zero_shot.Scorer` gives scores; here they are corrected for what the model likes whatever the
text, become probabilities, and are withheld where two labels are too near (:mod:`.correction`). Agreement with people
is measured on a sample (:mod:`.agreement`), and what such labels are worth to a small model that learns from them is a
paired comparison of people's labels alone, the model's alone, and both (:mod:`.worth`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from variorum.tasks.labelling.agreement import Agreement, agreement
from variorum.tasks.labelling.correction import Correction, Labelled, corrected

if TYPE_CHECKING:
    from variorum.tasks.zero_shot import Example, Scorer

MOST_TOKENS = 256

__all__ = ["Agreement", "Correction", "Labelled", "agreement", "few", "label", "shortened"]


def label(scorer: Scorer, texts: Sequence[str], how: Correction | None = None) -> Labelled:
    """A label for each text, in order; see :class:`Correction`.

    Args:
        scorer: from :func:`variorum.tasks.zero_shot.scorer`.
        texts: N of them.
    """
    how = how or Correction()
    return corrected(scorer.labels, scorer.scores(texts), how.prior(scorer), how)


def few(gold: Sequence[Example], count: int, *, seed: int = 0) -> tuple[list[Example], list[Example]]:
    """``count`` examples to show, of each label in turn as long as it has any, and the gold that is left to judge by.

    Which ones, and their order, are drawn; the left ones stay in order.
    """
    chance = random.Random(seed)
    by_label: dict[str, list[int]] = {}
    for number, (_, name) in enumerate(gold):
        by_label.setdefault(name, []).append(number)
    piles = [chance.sample(by_label[name], len(by_label[name])) for name in sorted(by_label)]
    turns = [pile[turn] for turn in range(max(map(len, piles), default=0)) for pile in piles if turn < len(pile)]
    chosen = turns[:count]
    chance.shuffle(chosen)  # models favour the last label shown, so no label is always last
    held = set(chosen)
    return [gold[i] for i in chosen], [one for i, one in enumerate(gold) if i not in held]


def shortened(tokenizer: Any, texts: Sequence[str], most: int = MOST_TOKENS) -> tuple[list[str], int]:
    """Texts of at most ``most`` tokens, without their ends where they were longer, and how many were cut."""
    encodings = tokenizer.encode_batch(texts, specials=False)
    kept = [
        text if len(one.ids) <= most else text[: one.offsets[most - 1][1]]
        for text, one in zip(texts, encodings, strict=True)
    ]
    return kept, sum(len(one.ids) > most for one in encodings)
