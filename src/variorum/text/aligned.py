"""Text clean-up that some models do before SentencePiece, with every character's origin kept.

ALBERT and XLNet fold quotes, whitespace, accents and case in front of their model (google-research/albert,
``tokenization.preprocess_text``; zihangdai/xlnet, ``prepro_utils.preprocess_text``). This does the same and remembers
where each character came from, so that offsets can point into the text as the user wrote it.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from .encoding import Offset


@dataclass(frozen=True, kw_only=True, slots=True)
class Aligned:
    """A changed text; ``starts[i]`` and ``ends[i]`` are the original span of its character i."""

    text: str
    starts: list[int]
    ends: list[int]

    def original(self, span: Offset) -> Offset:
        """The original span of a half-open span of the changed text."""
        first, last = span
        if first >= last:
            place = self.starts[first] if first < len(self.starts) else (self.ends[-1] if self.ends else 0)
            return place, place
        return self.starts[first], self.ends[last - 1]


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanUp:
    """The switches of ``preprocess_text``; each is independent of the others."""

    lower: bool = False
    keep_accents: bool = False
    remove_space: bool = True

    def __call__(self, text: str) -> Aligned:
        chars, starts, ends = self._spaced(text)
        chars, starts, ends = _quotes(chars, starts, ends)
        if not self.keep_accents and not text.isascii():
            chars, starts, ends = _without_accents(chars, starts, ends)
        changed = "".join(chars)
        if self.lower:
            changed, starts, ends = _lowered(changed, starts, ends)
        return Aligned(text=changed, starts=starts, ends=ends)

    def _spaced(self, text: str) -> tuple[list[str], list[int], list[int]]:
        """Runs of whitespace become one space, none at the ends: ``" ".join(text.split())``."""
        if not self.remove_space:
            return list(text), list(range(len(text))), list(range(1, len(text) + 1))
        chars: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        gap = -1
        for place, char in enumerate(text):
            if char.isspace():
                gap = place if gap < 0 else gap
                continue
            if gap >= 0 and chars:
                chars.append(" ")
                starts.append(gap)
                ends.append(place)
            gap = -1
            chars.append(char)
            starts.append(place)
            ends.append(place + 1)
        return chars, starts, ends


def _quotes(chars: list[str], starts: list[int], ends: list[int]) -> tuple[list[str], list[int], list[int]]:
    """TeX quotes become a double quote, first `` and then ''; each is one character with a two-character origin."""
    for old in ("``", "''"):
        joined = "".join(chars)
        if old not in joined:
            continue
        kept: list[int] = []
        place = 0
        while place < len(chars):
            kept.append(place)
            if joined.startswith(old, place):
                chars[place], ends[place] = '"', ends[place + 1]
                place += 2
            else:
                place += 1
        chars, starts, ends = ([values[i] for i in kept] for values in (chars, starts, ends))  # type: ignore[assignment]
    return chars, starts, ends


def _without_accents(chars: list[str], starts: list[int], ends: list[int]) -> tuple[list[str], list[int], list[int]]:
    """Compatibility decomposition without combining marks; their reordering does not matter, for all are dropped."""
    out: list[str] = []
    first: list[int] = []
    last: list[int] = []
    for char, start, end in zip(chars, starts, ends, strict=True):
        for part in unicodedata.normalize("NFKD", char):
            if not unicodedata.combining(part):
                out.append(part)
                first.append(start)
                last.append(end)
    return out, first, last


def _lowered(text: str, starts: list[int], ends: list[int]) -> tuple[str, list[int], list[int]]:
    """Lower case of the whole text: a final sigma depends on its neighbours, lengths do not."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered, starts, ends
    counts = [len(char.lower()) for char in text]
    first = [start for start, count in zip(starts, counts, strict=True) for _ in range(count)]
    last = [end for end, count in zip(ends, counts, strict=True) for _ in range(count)]
    return lowered, first, last
