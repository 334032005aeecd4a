"""What rows ask of a model by themselves: their languages, their lengths, how many are labelled; and so which rules of
:mod:`variorum.family.choice` speak to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from variorum.family.choice import Constraint, Need
from variorum.study.labelled import Rows, said

SAMPLE = 2000
"""Texts whose language is looked at, spread over the rows."""
ENOUGH_OF_A_LANGUAGE = 0.05
"""Share of texts from which on a language is asked for, as the audit has it."""
INDIAN = frozenset({"hi", "hi-Latn", "mr", "ne", "bn", "as", "pa", "gu", "or", "ta", "te", "kn", "ml", "si"})
FEW, MANY = 100, 1000
"""Labelled rows below which a model that is asked does as well, and from which on an encoder learns enough."""
LONG, TOKENS_A_WORD = 512, 1.3
"""Tokens that BERT's line reads, and what an English word makes of them."""
LONG_SHARE = 0.05


class Asks(NamedTuple):
    """A constraint that the rows bring with them, and what of them brings it."""

    constraint: Constraint
    because: str


def need_of(kind: str) -> Need:
    """What a kind of task is in the words of the rules."""
    return "classification" if kind == "classify" else "understanding"


def asks(rows: Rows) -> list[Asks]:
    """The constraints that rows bring, the weightiest first."""
    texts = [said(row) for row in (*rows.train, *rows.test)]
    return [*_languages(texts[:: max(1, len(texts) // SAMPLE)]), *_lengths(texts), *_labels(rows)]


def _languages(texts: list[str]) -> Iterator[Asks]:
    from variorum.tasks.language import ENGLISH, identify

    found = [identify(text) for text in texts]
    indian = [one for one in found if INDIAN & {*one.languages}]
    foreign = [one for one in found if {*one.languages} - INDIAN - {ENGLISH}]
    mixed = [one for one in found if one.mixed]
    enough = ENOUGH_OF_A_LANGUAGE * len(texts)
    if len(indian) >= enough:
        yield Asks("indian-languages", f"{len(indian) / len(texts):.0%} of the texts hold an Indian language")
    if len(foreign) >= enough:
        yield Asks("many-languages", f"{len(foreign) / len(texts):.0%} of the texts hold a language besides English")
    if len(mixed) >= enough:
        yield Asks("noisy-text", f"{len(mixed) / len(texts):.0%} of the texts change language within")


def _lengths(texts: list[str]) -> Iterator[Asks]:
    long = sum(TOKENS_A_WORD * len(text.split()) > LONG for text in texts)
    if long >= LONG_SHARE * len(texts):
        yield Asks("long-context", f"{long / len(texts):.0%} of the texts are longer than {LONG} tokens or so")


def _labels(rows: Rows) -> Iterator[Asks]:
    count = len(rows.train)
    if need_of(rows.kind) != "classification":
        return
    if count < FEW:
        yield Asks("few-labels", f"only {count} labelled rows to learn from")
    elif count >= MANY:
        yield Asks("many-labels", f"{count:,} labelled rows to learn from")
