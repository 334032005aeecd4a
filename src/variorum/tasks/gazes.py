"""Whether models that answer questions look at the answers: readers, by self-attention, and writers, by theirs across.

:func:`watch` says so of any model that was fine-tuned for one or the other; :func:`compare` makes a small one of each,
which learn from questions about made-up sentences, and says so of both.
"""

from __future__ import annotations

import random
from typing import Any

from variorum.tasks.answer import Answerer
from variorum.tasks.text_to_text import TextAnswerer

#: Questions, and the words that answer each.
WORDS = {
    "Who?": ("Ann", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jon"),
    "What colour?": ("red", "green", "blue", "white", "black", "grey", "brown", "yellow"),
    "Which animal?": ("fox", "cat", "dog", "horse", "goat", "hare", "mouse", "owl"),
    "Where?": ("Rome", "Paris", "Oslo", "Delhi", "Kyoto", "Lima", "Cairo", "Bath"),
}
SENTENCES = (
    "{0} saw a {1} {2} in {3}.", "In {3} {0} saw a {1} {2}.", "A {1} {2} ran to {0} in {3}.",
    "In {3} a {1} {2} ran to {0}.",
)  # fmt: skip
LEARNED, ASKED = 1000, 200
"""Questions to learn from, and others to be watched at."""


def watch(task: Answerer | TextAnswerer, X: Any, y: Any) -> dict[str, Any]:
    """How well a fitted task answers, and how much of its attention falls on the answers' tokens while it does.

    Args:
        X: pairs of a question and its context.
        y: the answers; those that stand in their contexts are watched.

    Returns:
        ``exact``, the share of right answers; ``share`` and ``entropy`` (nats) of the attention, by layer and head,
        with ``uniform_share`` and ``uniform_entropy`` of one that is the same everywhere; and the ``best`` layer and
        head, which looks at the answer most, with its ``best_share`` and ``best_entropy``.

    Raises:
        UsageError: no answer stands in its context.
    """
    from variorum.inference.looking import gaze

    seen = gaze(task.model_, task.looked(X, y))
    return {
        "exact": float(task.evaluate(X, y)["exact"]), "best": seen.best, "best_share": float(seen.share[seen.best]),
        "best_entropy": float(seen.entropy[seen.best]), "uniform_share": seen.uniform_share,
        "uniform_entropy": seen.uniform_entropy, "share": seen.share.tolist(), "entropy": seen.entropy.tolist(),
    }  # fmt: skip


def questions(count: int, seed: int) -> tuple[list[tuple[str, str]], list[str]]:
    """Questions with their contexts, each of which says four things, and the answers."""
    rng = random.Random(seed)
    pairs, answers = [], []
    for _ in range(count):
        said = {question: rng.choice(words) for question, words in WORDS.items()}
        asked = rng.choice(list(WORDS))
        pairs.append((asked, rng.choice(SENTENCES).format(*said.values())))
        answers.append(said[asked])
    return pairs, answers


def compare(seed: int = 0) -> dict[str, dict[str, Any]]:
    """What :func:`watch` says of a nano BERT that finds answers and a nano T5 that writes them, both made from nothing.

    They are watched at questions of which they saw none. It takes half a minute.
    """
    X, y = questions(LEARNED, seed)
    new = [row for row in zip(*questions(ASKED, seed + 1), strict=True) if row[0] not in set(X)]
    asked, right = zip(*new, strict=True)
    how: dict[str, Any] = {"learning_rate": 1e-3, "validation": 0.0, "max_length": 64, "random_state": seed}
    tasks = {
        "bert": Answerer("nano", epochs=4, batch_size=32, **how),
        "t5": TextAnswerer("nano:t5", epochs=6, batch_size=16, template="{question} {context}", **how),
    }
    return {name: watch(task.fit(X, y), asked, right) for name, task in tasks.items()}
