"""``python -m tests.tools.doubted``: how many of the labels that were made wrong the audit doubts, and how many others.

One label in twenty is changed to another of the table's, at random. ``audit_of`` is what the tests hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.tools import datasets, weights
from variorum.face import load
from variorum.inference.vectors import embed
from variorum.tasks.audit.findings import Sheet
from variorum.tasks.audit.labels import Embed, suspects
from variorum.text.corpora import sentiment

Labelled = tuple[Sequence[str], Sequence[str]]
SHARE, SEEDS = 20, 3
DOMAINS = ("editorial", "movie", "product", "tweet")


def mails(one_in: int = 1) -> Labelled:
    """All mails, or all good ones with one in so many of the others."""
    rows = datasets.spam()
    bad = [row for row in rows if row["label"] == "spam"]
    kept = [row for row in rows if row["label"] == "ham"] + random.Random(0).sample(bad, len(bad) // one_in)
    return [row["text"] for row in kept], [row["label"] for row in kept]


def domains(*names: str, rows: int = 3000) -> Labelled:
    """Some of the rated snippets from these domains."""
    found = random.Random(0).sample([one for one in sentiment() if one.domain in names], rows)
    return [one.text for one in found], [one.domain for one in found]


def audit_of(labelled: Labelled, seed: int, embed: Embed | None = None) -> tuple[float, float]:
    """Precision and recall of the audit where one label in twenty is wrong."""
    (texts, labels), rng = labelled, random.Random(seed)
    names = sorted(set(labels))
    wrong = set(rng.sample(range(len(labels)), len(labels) // SHARE))
    given = [rng.choice([name for name in names if name != label]) if i in wrong else label
             for i, label in enumerate(labels)]  # fmt: skip
    told = {place for place, _, _ in suspects(Sheet(texts, given, range(len(texts))), embed)}
    return len(told & wrong) / max(1, len(told)), len(told & wrong) / len(wrong)


TABLES: dict[str, Callable[[], Labelled]] = {
    "spam or ham": mails, "the same, 1 to 44": lambda: mails(20),
    "product or tweet": lambda: domains("product", "tweet"), "four domains": lambda: domains(*DOMAINS),
}  # fmt: skip
SHORT = ("product or tweet", "four domains")
"""Tables whose texts an encoder reads in seconds."""


def minilm() -> Embed | None:
    """Vectors of the small encoder, each text read once; nothing where it was not fetched."""
    place = weights.path("minilm")
    if place is None:
        return None
    model, known = load(place, head=None), dict[str, Any]()

    def vectors(texts: Sequence[str]) -> Any:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, embed(model, new)[0].double().numpy(), strict=True))
        return np.array([known[text] for text in texts])

    return vectors


def main() -> None:
    for name, read in TABLES.items():
        labelled, vectors = read(), minilm() if name in SHORT else None
        for how, given in (("words", None), ("words and vectors", vectors)):
            if how == "words" or given is not None:
                found = [audit_of(labelled, seed, given) for seed in range(SEEDS)]
                precision, recall = (sum(part) / SEEDS for part in zip(*found, strict=True))
                print(f"{name:20} {len(labelled[0]):6,} rows  {how:18} precision {precision:.2f}  recall {recall:.2f}")


if __name__ == "__main__":
    main()
