"""Whether a text is nearly one of many others, as :mod:`variorum.tasks.audit.duplicates` has it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from variorum.tasks.audit.duplicates import ALIKE, FEWEST, plain, shingles


class Near:
    """Texts that others are held against, one at a time."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._same: set[str] = set()
        self._sizes: list[int] = []
        self._having: defaultdict[int, list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            parts = shingles(text).tolist()
            self._same.add(plain(text))
            self._sizes.append(len(parts))
            for part in parts if len(parts) >= FEWEST else ():
                self._having[part].append(number)

    def has(self, text: str) -> bool:
        """Whether one of them is the same or nearly the same."""
        if plain(text) in self._same:
            return True
        parts = shingles(text).tolist()
        if len(parts) < FEWEST:
            return False
        shared = Counter(number for part in parts for number in self._having.get(part, ()))
        return any(both >= ALIKE * (self._sizes[number] + len(parts) - both) for number, both in shared.items())
