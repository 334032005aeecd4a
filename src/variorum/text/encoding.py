"""What encoding a text gives: ids with their offsets, the wrapper around them, and padded batches.

Not an engine: no vocabulary lives here. A wrapper says which special tokens stand around one text
or a pair, as data, so that truncation and wrapping are the same code for every kind of tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..errors import UsageError

Offset = tuple[int, int]
Pieces = tuple[list[int], list[Offset]]
Side = Literal["left", "right"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoding:
    """One encoded text, or pair of texts.

    Attributes:
        ids: token ids, T integers.
        type_ids: segment of each token (0 for the first text, 1 for the second where the model has segments).
        offsets: half-open span of each token in code points of the *original* text it came from; (0, 0) for wrappers.
        tokens: the vocabulary's spelling of each token.
        special_mask: 1 where the wrapper put the token, 0 where the text did.
        sequence_ids: 0 or 1 for the text a token came from, None for wrappers.
        n_truncated: tokens that were cut to respect ``max_length``.
    """

    ids: list[int]
    type_ids: list[int]
    offsets: list[Offset]
    tokens: list[str]
    special_mask: list[int]
    sequence_ids: list[int | None]
    n_truncated: int = 0

    @property
    def attention(self) -> list[int]:
        """1 for every token: padding exists only in a :class:`Batch`."""
        return [1] * len(self.ids)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A place in a wrapper: the special token ``id``, or the text number ``sequence``.

    A place with a ``role`` is for a token that is chosen for each text ("language", "task"); it may be empty.
    """

    type_id: int = 0
    id: int | None = None
    sequence: int | None = None
    role: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrapper:
    """The special tokens around one text and around a pair."""

    single: tuple[Slot, ...] = (Slot(sequence=0),)
    pair: tuple[Slot, ...] = (Slot(sequence=0), Slot(sequence=1, type_id=1))

    def slots(self, texts: int) -> tuple[Slot, ...]:
        return self.single if texts == 1 else self.pair

    @property
    def around(self) -> tuple[list[int], list[int]]:
        """The special tokens before and after one text."""
        place = next(i for i, slot in enumerate(self.single) if slot.sequence is not None)
        sides = self.single[:place], self.single[place:]
        before, after = ([slot.id for slot in side if slot.id is not None] for side in sides)
        return before, after

    def added(self, texts: int) -> int:
        """How many special tokens stand around ``texts`` texts."""
        return sum(slot.id is not None for slot in self.slots(texts))

    @classmethod
    def of(cls, single: Sequence[tuple[int | str, int]], pair: Sequence[tuple[int | str, int]]) -> Wrapper:
        """From (id or "A" or "B", type id) entries, as wrappers are written down in this package."""

        def slot(what: int | str, type_id: int) -> Slot:
            if isinstance(what, int):
                return Slot(id=what, type_id=type_id)
            return Slot(sequence={"A": 0, "B": 1}[what], type_id=type_id)

        return cls(single=tuple(slot(*entry) for entry in single), pair=tuple(slot(*entry) for entry in pair))


def lengths_after_cut(lengths: Sequence[int], room: int) -> list[int]:
    """Longest first: only the longer text of a pair is cut until both are equally long.

    The rule, rounding included, is that of ``truncate_encodings`` in the tokenizers library.
    """
    if len(lengths) == 1:
        return [min(lengths[0], room)]
    short, long = sorted(lengths)
    if short + long > room:
        long = short if short > room else max(short, room - short)
        if short + long > room:
            short = room // 2
            long = short + room % 2
    return [short, long] if lengths[0] <= lengths[1] else [long, short]


def wrap(
    texts: Sequence[Pieces],
    wrapper: Wrapper,
    names: Sequence[str],
    *,
    specials: bool,
    max_length: int | None,
    side: Side,
) -> Encoding:
    """Cut the pieces of one or two texts to ``max_length`` tokens and put the wrapper around them."""
    slots = wrapper.slots(len(texts))
    cut = 0
    if max_length is not None:
        room = max_length - (wrapper.added(len(texts)) if specials else 0)
        if room < 0:
            raise UsageError(
                f"max_length {max_length} leaves no room for the {wrapper.added(len(texts))} special tokens",
                remedy="raise max_length, or encode with specials=False",
            )
        lengths = [len(ids) for ids, _ in texts]
        kept = lengths_after_cut(lengths, room)
        cut = sum(lengths) - sum(kept)
        if cut:
            texts = [_cut(pieces, keep, side) for pieces, keep in zip(texts, kept, strict=True)]
    ids: list[int] = []
    type_ids: list[int] = []
    offsets: list[Offset] = []
    special: list[int] = []
    sequences: list[int | None] = []
    for slot in slots:
        if slot.sequence is not None:
            these, spans = texts[slot.sequence]
        elif specials and slot.id is not None:
            these, spans = [slot.id], [(0, 0)]
        else:
            continue
        ids += these
        offsets += spans
        type_ids += [slot.type_id] * len(these)
        special += [int(slot.id is not None)] * len(these)
        sequences += [slot.sequence] * len(these)
    return Encoding(
        ids=ids,
        type_ids=type_ids,
        offsets=offsets,
        tokens=[names[i] for i in ids],
        special_mask=special,
        sequence_ids=sequences,
        n_truncated=cut,
    )


def _cut(pieces: Pieces, keep: int, side: Side) -> Pieces:
    ids, offsets = pieces
    if side == "right":
        return ids[:keep], offsets[:keep]
    start = len(ids) - keep
    return ids[start:], offsets[start:]


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Padded encodings: three int64 arrays [B, T], integers also when every text is empty."""

    input_ids: npt.NDArray[np.int64]
    token_type_ids: npt.NDArray[np.int64]
    attention_mask: npt.NDArray[np.int64]


def pad(
    encodings: Sequence[Encoding], *, pad_id: int, pad_type_id: int = 0, side: Side = "right", multiple_of: int = 1
) -> Batch:
    """Put encodings of different lengths in one rectangle [B, T].

    Args:
        encodings: B encodings.
        pad_id: the id that fills up.
        pad_type_id: the segment of padding (XLNet: 3).
        side: where padding goes.
        multiple_of: T is rounded up to a multiple of this.
    """
    length = max((len(encoding) for encoding in encodings), default=0)
    length = -(-length // multiple_of) * multiple_of
    shape = (len(encodings), length)
    input_ids = np.full(shape, pad_id, dtype=np.int64)
    token_type_ids = np.full(shape, pad_type_id, dtype=np.int64)
    attention_mask = np.zeros(shape, dtype=np.int64)
    for row, encoding in enumerate(encodings):
        here = slice(0, len(encoding)) if side == "right" else slice(length - len(encoding), length)
        input_ids[row, here] = encoding.ids
        token_type_ids[row, here] = encoding.type_ids
        attention_mask[row, here] = 1
    return Batch(input_ids=input_ids, token_type_ids=token_type_ids, attention_mask=attention_mask)
