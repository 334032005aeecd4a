"""Texts as streams: of about one length each, laid end to end without padding, so many that a processor is kept busy.

Results come back in the order of the texts. Nothing here knows a model; :mod:`.vectors` reads with one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

#: Tokens of a stream: matrix products are at their full rate, and what lies between two of them stays in the cache.
TOKENS = 2048


class Encoded(Protocol):
    """What a tokenizer makes of one text."""

    @property
    def ids(self) -> Sequence[int]: ...

    @property
    def type_ids(self) -> Sequence[int]: ...


@dataclasses.dataclass(frozen=True)
class Stream:
    """Texts end to end: their tokens [1, total], their segments [1, total], their lengths, and which texts they are."""

    input_ids: Tensor
    token_type_ids: Tensor
    lengths: tuple[int, ...]
    texts: tuple[int, ...]


def streams(
    encodings: Sequence[Encoded], *, tokens: int = TOKENS, texts: int | None = None, device: torch.device | None = None
) -> Iterator[Stream]:
    """All texts that hold tokens, longest first.

    Args:
        encodings: of the texts.
        tokens: a stream is full before it holds more than these; a longer text is a stream of its own.
        texts: at most so many in a stream.
        device: where the tokens are wanted.
    """
    for chosen in groups([len(one.ids) for one in encodings], tokens, texts):
        held = [encodings[i] for i in chosen]
        ids, kinds = (
            torch.tensor([number for row in rows for number in row], device=device)[None]
            for rows in ([one.ids for one in held], [one.type_ids for one in held])
        )
        yield Stream(ids, kinds, tuple(len(one.ids) for one in held), tuple(chosen))


def groups(lengths: Sequence[int], tokens: int, texts: int | None = None) -> Iterator[list[int]]:
    """Numbers of texts, longest first, in groups of at most ``tokens`` tokens and ``texts`` texts; empty texts in none.

    Groups are about equally full: a last one of a few tokens would run at a worse rate.
    """
    order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
    total = sum(lengths)
    share = total / max(1, -(-total // tokens))
    group: list[int] = []
    held = 0
    for number in order:
        full = held + lengths[number] > tokens or held >= share or len(group) == texts
        if group and full:
            yield group
            group, held = [], 0
        group.append(number)
        held += lengths[number]
    if group:
        yield group
