"""Texts as hasty fingers type them: what a model is judged on that shall bear noise."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from typing import Any


def mistyped(text: str, share: float, draw: random.Random) -> str:
    """``text`` with about a ``share`` of its letters dropped, doubled, swapped with the next one or hit wrongly.

    A text of letters never becomes empty.
    """
    made, place = list[str](), 0
    while place < len(text):
        one, after = text[place], text[place + 1 : place + 2]
        place += 1
        if not one.isalpha() or draw.random() >= share:
            made.append(one)
            continue
        slip = draw.choice(("drop", "double", "swap", "other"))
        if slip == "double":
            made.append(one + one)
        elif slip == "other":
            made.append(draw.choice(string.ascii_lowercase))
        elif slip == "swap" and after.isalpha():
            made.append(after + one)
            place += 1
        elif slip == "swap":
            made.append(one)
    return "".join(made) or text


def noisy(rows: Sequence[Any], share: float) -> tuple[Any, ...]:
    """Rows (texts, pairs, sentences of words) with every text mistyped, the same each time."""
    draw = random.Random(f"mistyped/{share}")

    def slipped(row: Any) -> Any:
        return mistyped(row, share, draw) if isinstance(row, str) else type(row)(map(slipped, row))

    return tuple(map(slipped, rows))
