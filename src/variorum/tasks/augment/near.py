"""Whether a text is nearly one of many others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

#: Texts that share so much of what either holds are near duplicates.
ALIKE = 0.8
CHARACTERS = 5


class Near:
    """Texts that others are held against, by their sequences of five characters, without case and spacing.

    Attributes:
        alike: the least share of all sequences of two texts that both have (Jaccard's) with which they are near.
    """

    def __init__(self, texts: Iterable[str], alike: float = ALIKE) -> None:
        self.alike = alike
        self._sizes: list[int] = []
        self._having: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            parts = _parts(text)
            self._sizes.append(len(parts))
            for part in parts:
                self._having[part].append(number)

    def has(self, text: str) -> bool:
        """Whether one of them is near to ``text``."""
        parts = _parts(text)
        shared = Counter(number for part in parts for number in self._having.get(part, ()))
        return any(
            both >= self.alike * (self._sizes[number] + len(parts) - both) for number, both in shared.items()
        )  # fmt: skip


def _parts(text: str) -> set[str]:
    plain = " ".join(text.lower().split())
    return {plain[at : at + CHARACTERS] for at in range(max(1, len(plain) - CHARACTERS + 1))}
