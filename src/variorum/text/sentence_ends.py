"""Where sentences end in running text: by punctuation and what follows it, with the usual abbreviations known.

Meant for cutting training texts at sensible places, as sequence formats made of sentences need; it is no parser.
"""

from __future__ import annotations

import re

_END = re.compile(r"""[.!?…]+["'”’)\]]*(?=\s+["'“‘(\[_]*[A-Z0-9])|[。！？]|\n\s*\n""")
_ABBREVIATIONS = frozenset((
    "mr", "mrs", "ms", "dr", "prof", "st", "rev", "hon", "capt", "col", "gen", "lt", "sgt", "jr", "sr", "messrs", "mme",
    "mlle", "vs", "etc", "al", "fig", "no", "vol", "pp", "cf", "eg", "ie",
))  # fmt: skip
_LAST_WORD = re.compile(r"(\w+)\W*$")


def sentence_starts(text: str) -> list[int]:
    """The places where sentences begin, in code points, the first at 0."""
    starts = [0]
    for found in _END.finditer(text):
        end = found.end()
        if found.group()[0] == "." and _is_short(text[max(0, found.start() - 12) : found.start()]):
            continue
        while end < len(text) and text[end].isspace():
            end += 1
        if end < len(text) and end > starts[-1]:
            starts.append(end)
    return starts


def _is_short(before: str) -> bool:
    """Whether the word before a full stop is an abbreviation or an initial."""
    word = _LAST_WORD.search(before)
    return word is not None and (word[1].lower() in _ABBREVIATIONS or (len(word[1]) == 1 and word[1].isupper()))
