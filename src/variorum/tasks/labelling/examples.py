"""What a model is shown: a few of the rows that people labelled, and texts no longer than it should read."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from variorum.tasks.trials import Rows


def few(gold: Rows, count: int, *, seed: int = 0) -> tuple[list[tuple[str, str]], Rows]:
    """``count`` examples to show, of each label in turn as long as it has any, and the gold that is left to judge by.

    Which ones, and their order, are drawn; the left ones stay in order.
    """
    chance = random.Random(seed)
    by_label: dict[str, list[int]] = {}
    for row, name in enumerate(gold.labels):
        by_label.setdefault(name, []).append(row)
    piles = [chance.sample(by_label[name], len(by_label[name])) for name in sorted(by_label)]
    turns = [pile[turn] for turn in range(max(map(len, piles), default=0)) for pile in piles if turn < len(pile)]
    chosen = turns[:count]
    chance.shuffle(chosen)  # models favour the last label shown, so no label is always last
    left = gold.at([row for row in range(len(gold.labels)) if row not in set(chosen)])
    return [(gold.texts[row], gold.labels[row]) for row in chosen], left


def shortened(tokenizer: Any, texts: Sequence[str], most: int) -> tuple[list[str], int]:
    """Texts of at most ``most`` tokens, without their ends where they were longer, and how many were cut."""
    encodings = tokenizer.encode_batch(texts, specials=False)
    kept = [
        text if len(one.ids) <= most else text[: one.offsets[most - 1][1]]
        for text, one in zip(texts, encodings, strict=True)
    ]
    return kept, sum(len(one.ids) > most for one in encodings)
