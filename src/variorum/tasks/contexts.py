"""A context beside its question, as a model reads it: its windows, and where its tokens stand in its characters.

The question stands first, except where a model's class token is the last of all (XLNet): there it follows the context,
as in the released code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variorum.errors import UsageError
from variorum.tasks.windows import View, Viewing, views

if TYPE_CHECKING:
    from variorum.text.encoding import Encoding, Offset
    from variorum.text.tokenizer import Tokenizer

Pair = tuple[str, str]
"""A question and its context."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """One context.

    Attributes:
        text: as it was written.
        offsets: of its tokens, in the text.
        shown: the windows over it, each with the question.
        nothing: the token of each window that stands for no answer.
    """

    text: str
    offsets: Sequence[Offset]
    shown: Sequence[View]
    nothing: Sequence[int]

    def tokens(self, place: Offset) -> Offset | None:
        """The first and the last token that hold something of the characters ``place``."""
        return tokens_of(self.offsets, place)

    def characters(self, first: int, last: int) -> Offset:
        """Where the tokens ``first`` to ``last`` stand in the text, without spaces around them."""
        start, end = self.offsets[first][0], self.offsets[last][1]
        written = self.text[start:end]
        start += len(written) - len(written.lstrip())
        return start, start + len(written.strip())


def tokens_of(offsets: Sequence[Offset], place: Offset) -> Offset | None:
    """The first and the last of some tokens that hold something of the characters ``place``."""
    inside = [i for i, (start, end) in enumerate(offsets) if start < place[1] and end > place[0]]
    return (inside[0], inside[-1]) if inside else None


def contexts(tokenizer: Tokenizer, pairs: Sequence[Pair], viewing: Viewing) -> list[Context]:
    """Every pair's context; a text that stands in several pairs is tokenized once.

    Raises:
        UsageError: a question leaves no room for its context, or a stride that never ends.
    """
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    known = dict(zip(texts, tokenizer.encode_batch(texts, specials=False), strict=True))
    first = not _class_token_is_last(tokenizer)
    made = []
    for number, (question, context) in enumerate(pairs):
        asked, long = known[question], known[context]
        with in_row(number):
            shown = views(
                tokenizer, (long.ids, long.offsets), viewing, beside=(asked.ids, asked.offsets), first=first
            )  # fmt: skip
        nothing = [_nothing(tokenizer, view.encoding) for view in shown]
        made.append(Context(text=context, offsets=long.offsets, shown=shown, nothing=nothing))
    return made


@contextmanager
def in_row(number: int) -> Iterator[None]:
    """Errors in here name the row, the first of which is number 0."""
    try:
        yield
    except UsageError as error:
        raise UsageError(error.what, where=f"row {number + 1}", remedy=error.remedy) from None


def _class_token_is_last(tokenizer: Tokenizer) -> bool:
    slots = tokenizer.wrapper.pair
    return bool(slots) and slots[-1].id is not None and slots[-1].id == tokenizer.cls_id


def _nothing(tokenizer: Tokenizer, encoding: Encoding) -> int:
    """The class token, or the first of all where there is none."""
    return next((at for at, id in enumerate(encoding.ids) if id == tokenizer.cls_id and encoding.special_mask[at]), 0)
