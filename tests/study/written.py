"""Small tables of several kinds of task, each with something to learn."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

ROWS = 140
SEA, SKY = ["wave", "salt", "ship", "tide", "shell", "crab"], ["wing", "star", "cloud", "wind", "moon", "kite"]
NAMES, OTHERS = ["Anna", "Ben", "Carl", "Dora"], ["sees", "hears", "likes", "near", "with", "and"]


def texts(path: Path, rows: int = ROWS) -> Path:
    """Texts of two kinds."""
    rng = random.Random(0)
    return _write(path, ("text", "label"), (
        (f"{' '.join(rng.sample(words, 3))} {i}", name)
        for i in range(rows // 2) for name, words in (("sea", SEA), ("sky", SKY))
    ))  # fmt: skip


def pairs(path: Path) -> Path:
    """Pairs that are of the same kind or not."""
    rng = random.Random(0)
    drawn = [(rng.choice((SEA, SKY)), rng.choice((SEA, SKY))) for _ in range(ROWS)]
    return _write(path, ("text1", "text2", "label"), (
        (f"{' '.join(rng.sample(a, 3))} {i}", " ".join(rng.sample(b, 3)), "same" if a is b else "other")
        for i, (a, b) in enumerate(drawn)
    ))  # fmt: skip


def numbers(path: Path) -> Path:
    """How many words of a text are of the sea."""
    rng = random.Random(0)
    made = [rng.choices((*SEA, *SKY), k=4) for _ in range(ROWS)]
    return _write(path, ("text", "many"), (
        (f"{' '.join(words)} {i}", sum(word in SEA for word in words)) for i, words in enumerate(made)
    ))  # fmt: skip


def tags(path: Path) -> Path:
    """Sentences with names."""
    rng = random.Random(0)
    made = [rng.choices((*NAMES, *OTHERS), k=5) for _ in range(ROWS)]
    return _write(path, ("words", "tags"), (
        (f"{' '.join(words)} {i}", " ".join("B-PER" if word in NAMES else "O" for word in (*words, "0")))
        for i, words in enumerate(made)
    ))  # fmt: skip


def alike(path: Path) -> Path:
    """Pairs, and how many words they share."""
    rng = random.Random(0)
    made = [(rng.sample((*SEA, *SKY), 4), rng.sample((*SEA, *SKY), 4)) for _ in range(ROWS)]
    return _write(path, ("text1", "text2", "score"), (
        (f"{' '.join(a)} {i}", " ".join(b), len({*a} & {*b})) for i, (a, b) in enumerate(made)
    ))  # fmt: skip


def partners(path: Path) -> Path:
    """Pairs of the same words in another order."""
    rng = random.Random(0)
    made = [rng.sample((*SEA, *SKY), 5) for _ in range(ROWS)]
    return _write(path, ("text1", "text2"), (
        (f"{' '.join(words)} {i}", " ".join(sorted(words))) for i, words in enumerate(made)
    ))  # fmt: skip


def questions(path: Path) -> Path:
    """Who of two is where, and of some who is not there; two questions about each context."""
    rng = random.Random(0)
    made = []
    for i in range(ROWS // 2):
        (one, other), (here, there) = rng.sample(NAMES, 2), rng.sample(SEA, 2)
        context = f"{one} has the {here} and {other} the {there} {i}"
        made += [(f"who has the {here}?", context, one), ("who has the moon?", context, "")]
    return _write(path, ("question", "context", "answer"), made)


def rewritten(path: Path) -> Path:
    """Texts without their last word."""
    rng = random.Random(0)
    made = [(*rng.choices((*SEA, *SKY), k=3), str(i)) for i in range(ROWS)]
    return _write(path, ("source", "target"), ((" ".join(words), " ".join(words[:-1])) for words in made))


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows((header, *rows))
    return path
