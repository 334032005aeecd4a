"""What a tokenizer makes of texts, laid out to be read: a row for each token, and how well the vocabulary fits.

Fertility is tokens per word, special tokens left out; a word is what stands between whitespace, whatever the tokenizer
takes for one, so that vocabularies can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError
from .encoding import Encoding, Offset
from .tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One place of an input.

    Attributes:
        position: how many real tokens stand before it; None for padding, which has no position.
        piece: the vocabulary's spelling.
        id: its id.
        segment: token type id.
        mask: 1 for a real token, 0 for padding.
        special: whether the wrapper or padding put it.
        start: where what it stands for begins, in code points of its own text.
        end: where that ends.
        reads: what stands there in the text.
        of: 0 or 1 for the text it comes from, None for a special token.
    """

    position: int | None
    piece: str
    id: int
    segment: int
    mask: int
    special: bool
    start: int
    end: int
    reads: str
    of: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """How a vocabulary fits a text or many: counts without special tokens, and what it does not know."""

    tokens: int
    words: int
    fertility: float | None
    unknown: int
    unknown_texts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspected:
    """One text, or pair, as a model gets it."""

    text: str
    pair: str | None
    tokens: list[Token]
    cut: int
    fit: Fit


def inspected(
    tokenizer: Tokenizer,
    text: str,
    pair: str | None = None,
    *,
    specials: bool = True,
    allow_special_text: bool = False,
    max_length: int | None = None,
    pad_to: int | None = None,
) -> Inspected:
    """Every token of a text, or pair, with its place in it.

    Args:
        tokenizer: the tokenizer.
        text: the first text.
        pair: the second.
        specials: put the wrapper's tokens around.
        allow_special_text: read special tokens spelt out in the text as such.
        max_length: cut to this many tokens; the cut is counted.
        pad_to: fill up to this many tokens.

    Raises:
        UsageError: more tokens than ``pad_to``, or no text.
    """
    made = tokenizer.encode(text, pair, specials=specials, allow_special_text=allow_special_text, max_length=max_length)
    texts = [text] if pair is None else [text, pair]
    rows = _rows(made, texts)
    if pad_to is not None:
        rows = _padded(rows, tokenizer, pad_to)
    return Inspected(text=text, pair=pair, tokens=rows, cut=made.n_truncated, fit=_fit(tokenizer, made, texts))


def _rows(made: Encoding, texts: Sequence[str]) -> list[Token]:
    return [
        Token(
            position=position,
            piece=made.tokens[position],
            id=made.ids[position],
            segment=made.type_ids[position],
            mask=1,
            special=bool(made.special_mask[position]),
            start=start,
            end=end,
            reads="" if of is None else texts[of][start:end],
            of=of,
        )
        for position, ((start, end), of) in enumerate(zip(made.offsets, made.sequence_ids, strict=True))
    ]


def _padded(rows: list[Token], tokenizer: Tokenizer, pad_to: int) -> list[Token]:
    missing = pad_to - len(rows)
    if missing < 0:
        raise UsageError(
            f"{len(rows)} tokens do not fit into {pad_to}", remedy=f"pad to more, or cut them to a length of {pad_to}"
        )
    id = tokenizer.pad_id or 0
    filler = Token(
        position=None, piece=tokenizer.id_to_token(id), id=id, segment=tokenizer.pad_type_id, mask=0, special=True,
        start=0, end=0, reads="", of=None,
    )  # fmt: skip
    return [*rows, *[filler] * missing] if tokenizer.padding_side == "right" else [*[filler] * missing, *rows]


def fit(tokenizer: Tokenizer, texts: Sequence[str]) -> Fit:
    """How the vocabulary fits many texts together."""
    return together([_fit(tokenizer, made, [text]) for text, made in zip(texts, _bare(tokenizer, texts), strict=True)])


def together(fits: Sequence[Fit]) -> Fit:
    """The fit of all of them; the texts of unknowns are told once, in order."""
    tokens, words = sum(one.tokens for one in fits), sum(one.words for one in fits)
    return Fit(
        tokens=tokens,
        words=words,
        fertility=tokens / words if words else None,
        unknown=sum(one.unknown for one in fits),
        unknown_texts=tuple(dict.fromkeys(text for one in fits for text in one.unknown_texts)),
    )


def _bare(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Encoding]:
    return tokenizer.encode_batch(texts, specials=False)


def _fit(tokenizer: Tokenizer, made: Encoding, texts: Sequence[str]) -> Fit:
    """The fit of what was not cut away."""
    places = [place for place, of in enumerate(made.sequence_ids) if of is not None]
    spans: list[list[Offset]] = [[], []]
    unknown: list[str] = []
    count = 0
    for place in places:
        of, (start, end) = made.sequence_ids[place] or 0, made.offsets[place]
        spans[of].append((start, end))
        if made.ids[place] == tokenizer.unk_id:
            count += 1
            unknown.append(texts[of][start:end].strip())
    words = sum(len(_kept(text, spans[of], made.n_truncated > 0).split()) for of, text in enumerate(texts))
    return Fit(
        tokens=len(places),
        words=words,
        fertility=len(places) / words if words else None,
        unknown=count,
        unknown_texts=tuple(dict.fromkeys(unknown)),
    )


def _kept(text: str, spans: Sequence[Offset], cut: bool) -> str:
    if not cut:
        return text
    return text[min(start for start, _ in spans) : max(end for _, end in spans)] if spans else ""
