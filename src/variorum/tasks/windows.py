"""Windows over what is longer than a model reads: where they lie, and which one knows most about a place.

``stride`` is how far each window begins behind the one before it (the field's ``doc_stride``), so two neighbours share
``room - stride`` tokens. A stride beyond the room would leave tokens unread and counts as the room.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variorum.errors import UsageError
from variorum.text.encoding import Encoding, Offset, Pieces, wrap
from variorum.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from variorum.face import Model

LONGEST = 512
"""Tokens that are read at once where neither the model nor its user says how many."""
Window = Offset
"""First token and the one after the last."""


def windows(length: int, room: int, stride: int | None = None) -> list[Window]:
    """Windows of at most ``room`` tokens that together cover ``length`` tokens; one, empty, for none.

    Args:
        stride: tokens from one window's beginning to the next one's; half of the room unless given.

    Raises:
        UsageError: no room, or a stride under 1, with which no window would be the last.
    """
    if room < 1:
        raise UsageError(
            "no room for a single token of the text", remedy="raise max_length, or shorten what goes before"
        )
    if stride is not None and stride < 1:
        raise UsageError(f"windows that move on by {stride} tokens never end", where="stride", remedy="use 1 or more")
    step = min(room, stride or max(1, room // 2))
    starts = range(0, max(1, length - room + step), step)
    return [(start, min(start + room, length)) for start in starts]


def knows_best(held: Sequence[Window], first: int, end: int) -> int:
    """The number of the window in ``held``, as :func:`windows` gives them, with most context around a word's tokens.

    It holds the token ``first``. Context is counted on the side where there is less of it, up to the window's edge; of
    equals the longer window is taken, and then the earlier one.
    """
    low = bisect_right(held, first, key=lambda window: window[1])
    high = bisect_right(held, first, key=lambda window: window[0])

    def context(number: int) -> tuple[int, int, int]:
        start, stop = held[number]
        return min(first - start, stop - end), stop - start, -number

    return max(range(low, high), key=context)


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """One window as a model reads it.

    Attributes:
        encoding: the window's tokens with the wrapper, and the other text if there is one.
        tokens: which tokens of the long text it shows.
        at: where the first of them stands in ``encoding``.
    """

    encoding: Encoding
    tokens: Window
    at: int

    def place(self, token: int) -> int:
        """Where the long text's ``token`` stands in ``encoding``."""
        return token - self.tokens[0] + self.at

    def shows(self, tokens: Window) -> bool:
        """Whether it shows all of the long text's tokens from the first to the last of ``tokens``, both included."""
        return self.tokens[0] <= tokens[0] and tokens[1] < self.tokens[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Viewing:
    """How a long text is shown: at most ``max_length`` tokens at once, wrapper included, every ``stride`` tokens."""

    max_length: int
    stride: int | None = None


def reading_length(model: Model, wanted: int | None) -> int:
    """Tokens that are read at once: as many as wanted, at most those that the model takes, and :data:`LONGEST`."""
    from variorum.inference.encode import longest_input

    limits = (wanted or LONGEST, longest_input(model), model.tokenizer.model_max_length)
    return min(one for one in limits if one)


def views(
    tokenizer: Tokenizer, long: Pieces, viewing: Viewing, *, beside: Pieces | None = None, first: bool = True
) -> list[View]:  # fmt: skip
    """All windows over ``long``, each with its wrapper, and with the whole of ``beside`` where a pair is read.

    Args:
        first: whether ``beside`` stands before the window.

    Raises:
        UsageError: nothing is left of ``max_length`` for the long text.
    """
    ids, offsets = long
    texts = 1 if beside is None else 2
    taken = tokenizer.wrapper.added(texts) + (len(beside[0]) if beside is not None else 0)
    found = []
    for start, end in windows(len(ids), viewing.max_length - taken, viewing.stride):
        shown = ids[start:end], offsets[start:end]
        pieces = [shown] if beside is None else [beside, shown] if first else [shown, beside]
        encoding = wrap(pieces, tokenizer.wrapper, tokenizer.engine.names, specials=True, max_length=None, side="right")
        number = int(beside is not None and first)
        at = encoding.sequence_ids.index(number) if end > start else 0
        found.append(View(encoding=encoding, tokens=(start, end), at=at))
    return found
