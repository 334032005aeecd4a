"""The engine over ``sentencepiece``: published ``.model`` files, with offsets into the original text.

The library's own offsets are used, so ids and offsets are the published tokenizer's by construction; a token that
begins with a space covers that space, and where one character gives several tokens (a ligature, bytes), the last covers
it and the others are empty at its start. On top comes what models add around their file: shifted
or appended ids, clean-up before the model, special tokens. Which does what is :mod:`variorum.text.dialects`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import sentencepiece

from ..errors import DamagedFile
from .aligned import CleanUp
from .encoding import Offset, Pieces
from .guard import native
from .specials import Added

# Appended to a serialised model, this sets normalizer_spec.add_dummy_prefix to false (later fields win).
_NO_PREFIX = b"\x1a\x02\x18\x00"


class PieceModel:
    """A loaded ``.model`` file and the two facts about it that the library does not tell.

    Attributes:
        algorithm: "unigram" or "bpe".
        dummy_prefix: whether a space is put before the text.
    """

    def __init__(self, data: bytes, where: str) -> None:
        trainer, normalizer = _specs(data, where)
        kind = trainer.get(3, 1)
        if kind not in (1, 2):
            raise DamagedFile(f"SentencePiece model type {kind} is neither unigram nor BPE", where=where)
        self.algorithm = "unigram" if kind == 1 else "bpe"
        self.dummy_prefix = bool(normalizer.get(3, 1))
        self.data = data
        self.where = where
        self.processor = _load(data, where)
        self.size: int = self.processor.GetPieceSize()
        if self.size == 0:
            raise DamagedFile("the SentencePiece model has no pieces", where=where)
        self.names: list[str] = native(
            lambda: [self.processor.IdToPiece(id) for id in range(self.size)], "a piece is not text", where
        )
        self.control = frozenset(
            id for id in range(self.size) if self.processor.IsControl(id) or self.processor.IsUnknown(id)
        )

    def without_prefix(self) -> sentencepiece.SentencePieceProcessor:
        """The same model that puts no space before the text."""
        return _load(self.data + _NO_PREFIX, self.where) if self.dummy_prefix else self.processor


def _load(data: bytes, where: str) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    native(lambda: processor.LoadFromSerializedProto(data), "not a SentencePiece model", where)
    return processor


def _specs(data: bytes, where: str) -> tuple[dict[int, int], dict[int, int]]:
    """Number-valued fields of the trainer and normaliser specs (sentencepiece_model.proto, fields 2 and 3)."""
    found: dict[int, dict[int, int]] = {2: {}, 3: {}}
    try:
        for number, value in _fields(data):
            if number in found and isinstance(value, bytes):
                found[number] |= {inner: item for inner, item in _fields(value) if isinstance(item, int)}
    except (IndexError, ValueError):
        raise DamagedFile("not a SentencePiece model (broken message)", where=where) from None
    return found[2], found[3]


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and values of one protobuf message; fixed-width values are skipped."""
    place, end = 0, len(data)
    while place < end:
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _varint(data, place)
            yield number, value
        elif wire == 2:
            length, place = _varint(data, place)
            if length > end - place:
                raise ValueError("truncated")
            if number != 1:  # the pieces themselves, most of the file, are the library's business
                yield number, data[place : place + length]
            place += length
        elif wire in (1, 5):
            place += 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
    if place != end:
        raise ValueError("truncated")


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("number too long")


class PieceEngine:
    """A SentencePiece model behind the :class:`~variorum.text.tokenizer.Engine` protocol.

    Args:
        model: the model file.
        ids: published id of each of the model's pieces.
        names: spelling of every published id, appended tokens included.
        added: tokens that are matched in the text before the model sees it (special ones only on request).
        clean: clean-up before the model, if the family has one.
        prefix_after_special: whether text after a special token starts with a space again, as the first text does.
    """

    def __init__(
        self,
        model: PieceModel,
        *,
        ids: Sequence[int],
        names: Sequence[str],
        added: Sequence[Added],
        special_ids: frozenset[int],
        clean: CleanUp | None = None,
        prefix_after_special: bool = True,
    ) -> None:
        self._model = model
        self._to_published = list(ids)
        self._to_piece = {published: piece for piece, published in enumerate(ids)}
        self.names: Sequence[str] = list(names)
        lookup: dict[str, int] = {}
        for id, name in enumerate(names):
            lookup.setdefault(name, id)
        self.lookup: Mapping[str, int] = lookup
        self.special_ids = special_ids
        self._clean = clean
        self._always = _Matcher([token for token in added if not token.special], lookup)
        self._all = _Matcher(list(added), lookup)
        self._later = model.processor if prefix_after_special else model.without_prefix()

    def encode(self, texts: Sequence[str], *, allow_special_text: bool) -> list[Pieces]:
        matcher = self._all if allow_special_text else self._always
        if not matcher:
            return self._run(self._model.processor, list(texts))
        return [self._joined(list(matcher.split(text))) for text in texts]

    def _joined(self, parts: list[tuple[int, int | str, int]]) -> Pieces:
        """Encode the stretches between added tokens and put everything in one line."""
        ids: list[int] = []
        offsets: list[Offset] = []
        for number, (start, what, end) in enumerate(parts):
            if isinstance(what, int):
                ids.append(what)
                offsets.append((start, end))
            elif what:
                processor = self._later if number else self._model.processor
                [(these, spans)] = self._run(processor, [what])
                ids += these
                offsets += [(start + first, start + last) for first, last in spans]
        return ids, offsets

    def _run(self, processor: sentencepiece.SentencePieceProcessor, texts: list[str]) -> list[Pieces]:
        aligned = [self._clean(text) for text in texts] if self._clean else None
        inputs = [item.text for item in aligned] if aligned else texts
        made = native(
            lambda: processor.Encode(inputs, return_type="offset_mapping", num_threads=1),
            "the SentencePiece model fails on this text",
            self._model.where,
            quiet=False,
        )
        table = self._to_published
        out: list[Pieces] = []
        for number, entry in enumerate(made):
            offsets: list[Offset] = entry["offsets"]
            if aligned:
                offsets = [aligned[number].original(span) for span in offsets]
            out.append(([table[id] for id in entry["ids"]], offsets))
        return out

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """The library's text of each stretch of ordinary tokens, special tokens by their spelling or not at all."""
        if skip_special:
            ids = [id for id in ids if id not in self.special_ids]
        text = ""
        for ordinary, group in groupby(ids, lambda id: id in self._to_piece and id not in self.special_ids):
            if not ordinary:
                text += "".join(self.names[id] for id in group)
                continue
            run = [self._to_piece[id] for id in group]
            spaced = bool(text) and self._model.dummy_prefix and self._model.names[run[0]].startswith("▁")
            text += (" " if spaced else "") + self._model.processor.Decode(run)
        return text


class _Matcher:
    """Finds added tokens in a text, leftmost first and then longest."""

    def __init__(self, tokens: Sequence[Added], lookup: Mapping[str, int]) -> None:
        self._tokens = {token.content: token for token in tokens if token.content and token.content in lookup}
        self._lookup = lookup
        longest_first = sorted(self._tokens, key=lambda content: (-len(content), content))
        self._pattern = re.compile("|".join(re.escape(content) for content in longest_first)) if self._tokens else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def split(self, text: str) -> Iterator[tuple[int, int | str, int]]:
        """(start, id or text between, end) in order; a token that strips takes the whitespace beside it."""
        assert self._pattern is not None
        done = 0
        for match in self._pattern.finditer(text):
            token = self._tokens[match.group()]
            start, end = match.span()
            if start < done or (token.single_word and _inside_word(text, start, end)):
                continue
            if token.strip_left:
                while start > done and text[start - 1].isspace():
                    start -= 1
            if token.strip_right:
                while end < len(text) and text[end].isspace():
                    end += 1
            if start > done:
                yield done, text[done:start], start
            yield start, self._lookup[token.content], end
            done = end
        if done < len(text):
            yield done, text[done:], len(text)


def _inside_word(text: str, start: int, end: int) -> bool:
    before = start > 0 and (text[start - 1].isalnum() or text[start - 1] == "_")
    after = end < len(text) and (text[end].isalnum() or text[end] == "_")
    return before or after
