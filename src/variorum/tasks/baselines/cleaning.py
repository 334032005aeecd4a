"""Light cleaning of texts before words are counted: a few named steps, each of which can be left out.

Models read texts as they are; only baselines, which know nothing but the words they have seen, are helped by it.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Sequence

# What opens a script ends where the next one opens, so that no text is read again and again.
_TAG = re.compile(r"<(script|style)\b[^<]*(?:<(?!/?\1)[^<]*)*</\1\s*>|<[^<>]{1,1000}>", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://\S+|www\.\S+")
_MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,255}\.[\w.-]+")
_DRAWN_OUT = re.compile(r"(\w)\1{3,}")


def _characters(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _markup(text: str) -> str:
    return html.unescape(_TAG.sub(" ", text))


def _addresses(text: str) -> str:
    return _MAIL.sub(" mailaddress ", _ADDRESS.sub(" webaddress ", text))


def _drawn_out(text: str) -> str:
    return _DRAWN_OUT.sub(r"\1\1\1", text)


def _blanks(text: str) -> str:
    return " ".join(text.split())


STEPS: dict[str, Callable[[str], str]] = {
    "characters": _characters,
    "markup": _markup,
    "addresses": _addresses,
    "drawn-out": _drawn_out,
    "case": str.lower,
    "blanks": _blanks,
}
"""In order: one form for each character; no tags and no entities of HTML; one word for every web and mail address;
``soooooo`` as ``sooo``; no capitals; one blank between words."""
USUAL = tuple(STEPS)


def clean(text: str, steps: Sequence[str] = USUAL) -> str:
    """``text`` after the named steps, which are always taken in the order of ``STEPS``."""
    for name, step in STEPS.items():
        if name in steps:
            text = step(text)
    return text
