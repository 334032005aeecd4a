"""More examples of rare classes, made of those that are there; for the rows to learn from, never for those to judge by.

An :class:`Augmenter` makes variants of one text: by a masked language model (:mod:`.replacing`), by translation there
and back or by a decoder that rephrases (:mod:`.rewriting`). Which classes need how many is decided here, and what comes
out is checked: a variant that is nearly a text of the evaluation rows would make the score a lie, and is dropped.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from variorum.errors import UsageError
from variorum.tasks.trials import Learn, Rows, Trial, trials

__all__ = ["Augmented", "Augmenter", "augmented", "gain"]

WITHOUT, WITH = "without variants", "with variants"


class Augmenter(Protocol):
    """Makes variants of a text that keep its label."""

    def __call__(self, text: str, count: int) -> Sequence[str]:
        """At most ``count`` variants; none where it can make none."""


@dataclass(frozen=True, kw_only=True)
class Augmented:
    """Rows with their variants.

    Attributes:
        rows: those given, then the variants. sources: of each variant, the row that it was made of.
        repeated: variants that were dropped as empty or as texts that are there already.
        leaked: variants that were dropped as near duplicates of evaluation rows, or not made, of a row that is one.
        before, after: rows of each class.
    """

    rows: Rows
    sources: tuple[int, ...]
    repeated: int
    leaked: int
    before: Mapping[str, int]
    after: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How many variants are wanted.

    Attributes:
        share: of the largest class's rows that every other class is brought to.
        most: variants of one text, at most.
        weight: by which a variant counts, beside 1 of a text.
        seed: of the order in which a class's texts are taken.
    """

    share: float = 0.5
    most: int = 4
    weight: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1 or self.most < 1:
            raise UsageError(
                f"a share of {self.share} with {self.most} variants of a text", where="augmentation",
                remedy="give a share above 0, at most 1, and one variant at least",
            )  # fmt: skip


USUAL = Wanted()


def augmented(rows: Rows, augmenter: Augmenter, evaluation: Sequence[str], how: Wanted = USUAL) -> Augmented:
    """``rows`` with variants of the rare classes' texts.

    Args:
        evaluation: texts of every row that will judge what is learnt.
    """
    from variorum.tasks.audit.duplicates import plain
    from variorum.tasks.augment.near import Near

    chance, near = random.Random(how.seed), Near(evaluation)
    counts = Counter(rows.labels)
    goal = round(how.share * max(counts.values(), default=0))
    seen, texts, sources = set(map(plain, rows.texts)), list[str](), list[int]()
    repeated = leaked = 0
    for label in sorted(counts):
        places = [place for place, one in enumerate(rows.labels) if one == label]
        missing = goal - len(places)
        for place, count in _shared(chance.sample(places, len(places)), missing, how.most):
            if near.has(rows.texts[place]):
                leaked += count
                continue
            for variant in augmenter(rows.texts[place], count):
                alone = plain(variant)
                if not alone or alone in seen:
                    repeated += 1
                elif near.has(variant):
                    leaked += 1
                else:
                    seen.add(alone)
                    texts.append(variant)
                    sources.append(place)
    labels = [rows.labels[place] for place in sources]
    made = rows.and_(Rows(texts, labels, [how.weight] * len(texts)))
    return Augmented(
        rows=made, sources=tuple(sources), repeated=repeated, leaked=leaked, before=dict(counts),
        after=dict(Counter(made.labels)),
    )  # fmt: skip


def gain(learn: Learn, rows: Rows, made: Augmented, test: Rows, *, seeds: int = 3) -> list[Trial]:
    """What variants bring: the same learner with and without them, on the same seeds and held-out rows."""
    return trials(learn, {WITHOUT: rows, WITH: made.rows}, test, seeds=seeds)


def _shared(places: Sequence[int], missing: int, most: int) -> Iterable[tuple[int, int]]:
    """How many variants each text is asked for, evenly, until as many are asked for as are missing."""
    for number, place in enumerate(places):
        count = min(most, -(-missing // (len(places) - number)))
        if count < 1:
            return
        missing -= count
        yield place, count
