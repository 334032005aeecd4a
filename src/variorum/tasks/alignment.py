"""Words and the tokens that a tokenizer makes of them: which token speaks for which word, and what each is taught.

Words are places in a text, so what is found in words has its characters in the text as it was written. The first token
of a word speaks for it. Words and tokens need not fit: a word may have no token (a lone control character), and a token
that reaches over several words belongs to the first of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from variorum.objectives.base import IGNORED
from variorum.tasks.windows import View, knows_best
from variorum.text.encoding import Offset, Pieces
from variorum.text.tokenizer import Tokenizer

ZERO_WIDTH_JOINER = "\u200d"
SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
CONNECTORS = "'’-."
_APART = re.compile(r"\S+")
_WORD = re.compile("w[wmj]*(?:cw[wmj]*)*|[^sw](?:m|j[^s]?)*")
"""Over the kinds of the characters, see :func:`_kind`."""


class Sentence(NamedTuple):
    """A text and its words, each half-open in code points of the text, in order and apart."""

    text: str
    words: tuple[Offset, ...]

    @classmethod
    def of(cls, words: Sequence[str]) -> Sentence:
        """Words joined by single spaces."""
        places, at = [], 0
        for word in words:
            places.append((at, at + len(word)))
            at += len(word) + 1
        return cls(" ".join(words), tuple(places))

    @classmethod
    def cut(cls, text: str) -> Sentence:
        """The words of a text that stand between blanks."""
        return cls(text, tuple(found.span() for found in _APART.finditer(text)))

    @classmethod
    def split(cls, text: str) -> Sentence:
        """The words of a text that nobody has cut: runs of letters, digits and marks, also with a sign between two that
        joins them (don't, 3.14); every other sign alone.

        Marks, joiners and modifiers stay with what they change, so that no character that is seen as one is cut.
        """
        kinds = "".join(map(_kind, text))
        return cls(text, tuple(found.span() for found in _WORD.finditer(kinds)))

    def strings(self) -> list[str]:
        """The words as they are written."""
        return [self.text[start:end] for start, end in self.words]

    def characters(self, first: int, end: int) -> Offset:
        """Where the words ``first`` to ``end`` stand in the text."""
        return self.words[first][0], self.words[end - 1][1]


def _kind(char: str) -> str:
    """A letter or digit (w), a mark, a joiner, a space, a sign that joins letters, or any other sign (o)."""
    category = unicodedata.category(char)
    if char == ZERO_WIDTH_JOINER:
        return "j"
    if char.isspace():
        return "s"
    if char in CONNECTORS:
        return "c"
    if category[0] == "M" or category == "Cf" or char in SKIN_TONES:
        return "m"
    return "w" if category[0] in "LN" else "o"


class Aligned(NamedTuple):
    """A sentence's tokens, without a wrapper, and for each word its first token and the one after its last.

    A word without a token has ``None``.
    """

    pieces: Pieces
    words: tuple[Offset | None, ...]


def align(tokenizer: Tokenizer, sentences: Sequence[Sentence]) -> list[Aligned]:
    """Tokenize sentences, and find the tokens of their words."""
    encodings = tokenizer.encode_batch([one.text for one in sentences], specials=False)
    return [
        Aligned((encoding.ids, encoding.offsets), _tokens_of(sentence.words, encoding.offsets))
        for sentence, encoding in zip(sentences, encodings, strict=True)
    ]


def _tokens_of(words: Sequence[Offset], offsets: Sequence[Offset]) -> tuple[Offset | None, ...]:
    """Tokens in the order of the text, given to the first word that they touch."""
    found: list[Offset | None] = [None] * len(words)
    at = 0
    for token, (start, end) in enumerate(offsets):
        while at < len(words) and words[at][1] <= start:
            at += 1
        if at < len(words) and start < end and words[at][0] < end:
            own = found[at]
            found[at] = (token if own is None else own[0]), token + 1
    return tuple(found)


def targets(
    aligned: Aligned, shown: Sequence[View], labels: Sequence[int], further: Sequence[int] | None = None
) -> list[list[int]]:
    """What each token of each window is taught; :data:`IGNORED` for wrappers and for what no word is taught by.

    A word is taught in one window only, the one that shows most around it: by its first token its label.

    Args:
        shown: the windows over the sentence.
        labels: one for each word.
        further: by label, what a word's further tokens are taught; they are taught nothing if absent.
    """
    windows = [view.tokens for view in shown]
    made = [[IGNORED] * len(view.encoding.ids) for view in shown]
    for word, label in zip(aligned.words, labels, strict=True):
        if word is None:
            continue
        first, end = word
        best = knows_best(windows, first, end)
        taught, view = made[best], shown[best]
        taught[view.place(first)] = label
        if further is not None:
            for token in range(first + 1, min(end, view.tokens[1])):
                taught[view.place(token)] = further[label]
    return made
