"""The two shipped texts as study data: Austen's chapters, and snippets from four domains.

Splits are by document and fixed, so that every seed and arm is scored on the same items. Text in, text out:
tokenisation is `quickstart`'s.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

from variorum.errors import DamagedFile

NOVELS = ("emma", "mansfieldpark", "northangerabbey", "persuasion", "prideprejudice", "sensesensibility")
TITLES = {
    "emma": "Emma",
    "mansfieldpark": "Mansfield Park",
    "northangerabbey": "Northanger Abbey",
    "persuasion": "Persuasion",
    "prideprejudice": "Pride and Prejudice",
    "sensesensibility": "Sense and Sensibility",
}
HELD_OUT = 8
"""One chapter in so many is held out, from every novel."""
DOMAINS = ("editorial", "movie", "product", "tweet")
TEST_SHARE = 4
"""One source document in so many goes to the test rows."""
_HEADING = re.compile(r"^ *(?:chapter|volume) +[ivxlc\d]+\.? *$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """One chapter, its heading left out. ``name`` is novel and running number."""

    name: str
    text: str
    held_out: bool


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """One rated snippet. ``document`` is the review, article or tweet that it comes from."""

    text: str
    domain: str
    document: str
    test: bool


def shipped(name: str) -> str:
    """The text of a file in the package's data folder.

    Raises:
        DamagedFile: it is missing, or does not unpack.
    """
    try:
        return gzip.decompress(resources.files("variorum.data").joinpath(name).read_bytes()).decode("utf-8")
    except (OSError, EOFError, ValueError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise DamagedFile(str(error), where=f"variorum/data/{name}", remedy="install variorum again") from error


def chapters() -> list[Chapter]:
    """All chapters of the six novels, in reading order; every eighth of each novel is held out."""
    found: list[Chapter] = []
    for novel in NOVELS:
        parts = [part.strip() for part in _HEADING.split(shipped(f"austen-{novel}.txt.gz"))[1:]]
        texts = [part for part in parts if len(part) > 1000]  # between "VOLUME I" and "CHAPTER I" nothing stands
        found += [
            Chapter(name=f"{TITLES[novel]} {i + 1}", text=text, held_out=i % HELD_OUT == HELD_OUT // 2)
            for i, text in enumerate(texts)
        ]
    return found


def snippets() -> list[Snippet]:
    """All snippets. All of a document's snippets fall on the same side of the split."""
    lines = shipped("sentiment.tsv.gz").splitlines()
    if lines[0].split("\t") != ["domain", "id", "rating", "text"]:
        raise DamagedFile(f"unexpected columns {lines[0]!r}", where="variorum/data/sentiment.tsv.gz")
    found = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != 4 or cells[0] not in DOMAINS:
            raise DamagedFile("a row without four cells or with an unknown domain", where=f"sentiment.tsv.gz:{number}")
        document = f"{cells[0]}/{cells[1].partition('_')[0]}"
        found.append(Snippet(text=cells[3], domain=cells[0], document=document, test=_in_test(document)))
    return found


def without_leaks(rows: Iterable[Snippet]) -> tuple[list[Snippet], list[Snippet], int]:
    """Training rows, test rows, and how many training rows were dropped because a test row has the same text."""
    kept = list(rows)
    tested = {plain(row.text) for row in kept if row.test}
    train = [row for row in kept if not row.test]
    clean = [row for row in train if plain(row.text) not in tested]
    return clean, [row for row in kept if row.test], len(train) - len(clean)


def spread(rows: Sequence[Snippet], most: int) -> list[Snippet]:
    """At most ``most`` rows, picked and ordered by a hash: the same ones on every machine, all kinds mixed."""
    return [rows[i] for i in places([row.text for row in rows], most)]


def places(texts: Sequence[str], most: int) -> list[int]:
    """Places of at most ``most`` texts, picked and ordered so."""
    return sorted(range(len(texts)), key=lambda i: hashlib.sha256(f"{i}/{texts[i]}".encode()).digest())[:most]


def _in_test(document: str) -> bool:
    return hashlib.sha256(document.encode()).digest()[0] % TEST_SHARE == 0


def plain(text: str) -> str:
    """By which two texts are the same: without case, with single spaces."""
    return " ".join(text.casefold().split())
