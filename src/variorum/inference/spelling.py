"""The text of ids that are still being written, in pieces that never have to be taken back.

A piece ends neither within a character nor within what may become a stop string, so that what a reader has seen so far
is always a beginning of the whole text.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

from variorum.text.tokenizer import tidied

#: What an incomplete character is decoded to.
BROKEN = "\ufffd"
#: A space that tidying leaves, and beyond which it does not look: between two words, the second no "n" of "n't".
UNTOUCHED = re.compile(r"(?<=\w) (?=(?!n\b)\w)")


class Spelling:
    """The text that new ids add to a prompt.

    Many tokenizers drop a leading space when ids are decoded alone, so a few ids before the new ones are decoded with
    them, and what those give alone is taken off again. Ids of spare rows, which stand for no token, add nothing.

    Args:
        tokenizer: the model's.
        prompt: ids before the new ones, whose text is not part of it.
        stop: the text ends before the first of these.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int] = (), stop: Sequence[str] = ()) -> None:
        self._tokenizer = dataclasses.replace(tokenizer, tidy=False)
        self._tidy, self._stop = tokenizer.tidy, tuple(stop)
        self._ids = list(prompt)
        self._from, self._read = 0, len(self._ids)  # ids before _from are not needed any more, those before _read spelt
        self._raw = ""  # spelt, but perhaps with a space that goes
        self._waiting = ""  # tidied, but perhaps the beginning of a stop string
        self.text, self.stopped = "", False

    def push(self, token: int) -> str:
        """The piece of text that is certain once ``token`` is written, often none."""
        if self.stopped or token >= self._tokenizer.vocab_size:
            return ""
        self._ids.append(token)
        fresh = self._fresh()
        raw = self._raw + fresh.rstrip(BROKEN)
        certain = max((cut.start() for cut in UNTOUCHED.finditer(raw)), default=0) if self._tidy else len(raw)
        whole = self._waiting + self._tidied(raw[:certain])
        if self._stops(whole):
            return self._say(whole, _first(whole, self._stop))
        if not fresh or fresh.endswith(BROKEN):
            return ""
        # Ids that give only space are no place to begin at: decoders drop it there.
        self._from, self._read = self._read if fresh.strip() else self._from, len(self._ids)
        self._raw = raw[certain:]
        return self._say(whole, len(whole) - _begun(whole, self._stop))

    def close(self) -> str:
        """The rest, when no more ids come."""
        if self.stopped:
            return ""
        whole = self._waiting + self._tidied(self._raw + self._fresh())
        self._from, self._read, self._raw = len(self._ids), len(self._ids), ""
        self._stops(whole)
        return self._say(whole, _first(whole, self._stop))

    def fork(self) -> Spelling:
        """A copy that goes its own way."""
        other = copy.copy(self)
        other._ids = list(self._ids)
        return other

    def _fresh(self) -> str:
        """The text of the ids after ``_read``."""
        before = self._tokenizer.decode(self._ids[self._from : self._read])
        whole = self._tokenizer.decode(self._ids[self._from :])
        return str(
            whole[len(before) :] if whole.startswith(before) else self._tokenizer.decode(self._ids[self._read :])
        )

    def _tidied(self, text: str) -> str:
        return tidied(text) if self._tidy else text

    def _stops(self, whole: str) -> bool:
        self.stopped = _first(whole, self._stop) < len(whole)
        return self.stopped

    def _say(self, whole: str, end: int) -> str:
        piece, self._waiting = whole[:end], whole[end:]
        self.text += piece
        return piece


def spelt(tokenizer: Any, prompt: Sequence[int], new: Iterable[int], stop: Sequence[str] = ()) -> str:
    """The text that ``new`` ids add to ``prompt``, up to the first of ``stop``."""
    spelling = Spelling(tokenizer, prompt, stop)
    for token in new:
        spelling.push(token)
    spelling.close()
    return spelling.text


def _first(text: str, stop: Sequence[str]) -> int:
    """Where the first of ``stop`` begins in ``text``; its length where none does."""
    return min((at for one in stop if (at := text.find(one)) >= 0), default=len(text))


def _begun(text: str, ends: Sequence[str]) -> int:
    """The most characters at the end of ``text`` that one of ``ends`` may begin with."""
    return max((n for one in ends for n in range(1, len(one)) if text.endswith(one[:n])), default=0)
