"""Texts that are there twice, word for word or nearly, found in time that grows with the rows and not with their pairs.

Nearly means that of the pairs of neighbouring words in either text so many stand in both; which texts to compare is
found by MinHash with bands (Broder 1997; Indyk and Motwani 1998), and then they are compared.
"""

from __future__ import annotations

import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from variorum.tasks.audit.findings import Finding, Severity, Sheet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.uint64]

ALIKE = 0.7
"""Share of pairs of words, of those in either text, that stand in both from which on they are nearly the same."""
BANDS, ROWS = 16, 4
"""Texts that agree in all hashes of a band are compared: of those that are 0.7 alike 98 % do, of 0.3 alike 12 %."""
FEWEST = 4
"""Pairs of words that a text needs to be nearly the same as another; shorter ones are the same or not."""
LONGEST = 5000
"""Words of a text that are looked at."""


def plain(text: str) -> str:
    """The text without what makes no difference to a reader: case, forms of characters, and blanks."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def exact(texts: Sequence[str]) -> list[list[int]]:
    """Places of texts that are the same but for case and blanks, a list for each text that is there twice or more.

    Texts without a word are no copies of one another.
    """
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        groups[plain(text)].append(place)
    return [places for text, places in groups.items() if len(places) > 1 and text]


def near(texts: Sequence[str]) -> list[list[int]]:
    """Places of texts that are nearly or exactly the same, a list for each group of them."""
    copies = exact(texts)
    doubled = {place for places in copies for place in places[1:]}
    held = {place: shingles(text) for place, text in enumerate(texts) if place not in doubled}
    places = [place for place, found in held.items() if len(found) >= FEWEST]
    leader = list(range(len(texts)))
    for members in copies:
        for place in members[1:]:
            leader[place] = members[0]
    for one, other in _candidates([held[place] for place in places]):
        a, b = places[one], places[other]
        if _root(leader, a) != _root(leader, b) and alike(held[a], held[b]) >= ALIKE:
            leader[_root(leader, max(a, b))] = _root(leader, min(a, b))
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for place in range(len(texts)):
        groups[_root(leader, place)].append(place)
    return [found for found in groups.values() if len(found) > 1]


def shingles(text: str) -> Numbers:
    """The different pairs of neighbouring words, as sorted numbers."""
    words = plain(text).split()[:LONGEST]
    hashed = np.fromiter((zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in words), np.uint64, len(words))
    return np.unique(hashed[:-1] << np.uint64(32) | hashed[1:])


def alike(one: Numbers, other: Numbers) -> float:
    """The share of pairs of words, of those in either text, that stand in both."""
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / max(1, len(one) + len(other) - shared)


def _candidates(held: Sequence[Numbers]) -> Iterator[tuple[int, int]]:
    """Pairs of places to compare: each with the first and the last one before it that agrees with it in a band."""
    if not held:
        return
    signed = _signatures(held)
    for band in range(BANDS):
        first: dict[bytes, int] = {}
        last: dict[bytes, int] = {}
        for place, row in enumerate(signed[:, band * ROWS : (band + 1) * ROWS]):
            key = row.tobytes()
            if key in first:
                yield from {(first[key], place), (last[key], place)}
            first.setdefault(key, place)
            last[key] = place


def _signatures(held: Sequence[Numbers]) -> Numbers:
    """The smallest of each of 64 hashes of a text's pairs of words, [texts, 64]."""
    rng = np.random.default_rng(0)
    odd = rng.integers(0, 2**63, BANDS * ROWS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    add = rng.integers(0, 2**63, BANDS * ROWS, dtype=np.uint64)
    whole = np.concatenate(held)
    whole ^= whole >> np.uint64(29)  # the words of a pair lie in halves of the number; mix them before they are scaled
    starts = np.cumsum([0, *(len(one) for one in held[:-1])])
    columns = [np.minimum.reduceat((whole * a + b) >> np.uint64(16), starts) for a, b in zip(odd, add, strict=True)]
    return np.stack(columns, 1)


def _root(leader: list[int], place: int) -> int:
    while leader[place] != place:
        leader[place] = leader[leader[place]]
        place = leader[place]
    return place


def check(sheet: Sheet) -> tuple[dict[str, object], list[Finding]]:
    """Copies within a table, and texts whose copies have another label."""
    same, alike_too = exact(sheet.texts), near(sheet.texts)
    copies, nearly = _further(same), _further(alike_too)
    findings = []
    if copies:
        findings.append(sheet.found("duplicates", Severity.LOOK, "the same text as an earlier row", copies))
    if len(nearly) > len(copies):
        found = sorted(set(nearly) - set(copies))
        findings.append(sheet.found("duplicates", Severity.LOOK, "nearly the same text as another row", found))
    if sheet.labels:
        odd = [place for places in same if len({sheet.labels[i] for i in places}) > 1 for place in places]
        serious = len(odd) >= 0.01 * len(sheet)
        if odd:
            severity = Severity.SERIOUS if serious else Severity.LOOK
            findings.append(sheet.found("contradictions", severity, "the same text with different labels", odd))
    return {"duplicates": len(copies), "near_duplicates": len(nearly)}, findings


def check_splits(sheet: Sheet, test: Sheet) -> tuple[dict[str, object], list[Finding]]:
    """Rows of a test set that stand among the rows to learn from; lines are the test set's."""
    both = [*sheet.texts, *test.texts]
    begin = len(sheet)
    copies, nearly = (_across(groups, begin) for groups in (exact(both), near(both)))
    nearly = sorted(set(nearly) - set(copies))
    findings = []
    if copies:
        findings.append(test.found("splits", Severity.SERIOUS, "a test row that is also learned from", copies))
    if nearly:
        severity = Severity.SERIOUS if len(nearly) >= 0.01 * len(test) else Severity.LOOK
        findings.append(
            test.found("splits", severity, "a test row nearly the same as one that is learned from", nearly)
        )
    return {"test_rows": len(test), "test_rows_learned": len(copies), "test_rows_nearly_learned": len(nearly)}, findings


def _further(groups: Iterable[Sequence[int]]) -> list[int]:
    return sorted(place for places in groups for place in places[1:])


def _across(groups: Iterable[Sequence[int]], begin: int) -> list[int]:
    crossing = [places for places in groups if min(places) < begin]
    return sorted(place - begin for places in crossing for place in places if place >= begin)
