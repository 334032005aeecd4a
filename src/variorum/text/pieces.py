"""The engine over ``sentencepiece``: published ``.model`` files, with offsets into the original text.

The library's own offsets are used, so ids and offsets are the published tokenizer's by construction; a token that
begins with a space covers that space, and where one character gives several tokens (a ligature, bytes), the last covers
it and the others are empty at its start. On top comes what models add around their file: shifted
or appended ids, clean-up before the model, special tokens. Which does what is :mod:`variorum.text.dialects`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

import sentencepiece

from ..errors import DamagedFile
from .aligned import CleanUp
from .encoding import Offset, Pieces
from .guard import native
from .specials import Added

# Appended to a serialised model, this sets normalizer_spec.add_dummy_prefix to false (later fields win).
_NO_PREFIX = b"\x1a\x02\x18\x00"
_USER_DEFINED = 4
_AS_UNUSED = b"\x18\x05"  # a piece's type, UNUSED


class PieceModel:
    """A loaded ``.model`` file and the facts about it that the library does not tell.

    Attributes:
        algorithm: "unigram" or "bpe".
        dummy_prefix: whether a space is put before the text.
        squeezes: whether runs of spaces become one, and spaces at the ends none.
        charsmap: its compiled normalisation table, empty for none.
    """

    def __init__(self, data: bytes, where: str) -> None:
        trainer, normalizer, charsmap = _specs(data, where)
        kind = trainer.get(3, 1)
        if kind not in (1, 2):
            raise DamagedFile(f"SentencePiece model type {kind} is neither unigram nor BPE", where=where)
        self.algorithm = "unigram" if kind == 1 else "bpe"
        self.dummy_prefix = bool(normalizer.get(3, 1))
        self.squeezes = bool(normalizer.get(4, 1))
        self.charsmap = charsmap
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

    @property
    def has_bytes(self) -> bool:
        """Whether bytes stand for characters that it does not know."""
        return any(self.processor.IsByte(id) for id in range(self.size))

    def without_prefix(self) -> PieceModel:
        """The same model that puts no space before the text."""
        return PieceModel(self.data + _NO_PREFIX, self.where) if self.dummy_prefix else self

    def unable_to_read(self, ids: Collection[int]) -> PieceModel:
        """The same model that never makes these pieces of a text, of those that it takes out of any text."""
        data = _without_cutting_out(self.data, ids, self.where)
        return self if data == self.data else PieceModel(data, self.where)


def _load(data: bytes, where: str) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    native(lambda: processor.LoadFromSerializedProto(data), "not a SentencePiece model", where)
    return processor


def _specs(data: bytes, where: str) -> tuple[dict[int, int], dict[int, int], bytes]:
    """Number-valued fields of the trainer and normaliser specs (fields 2 and 3), and the latter's table (its field 2).

    Field numbers are those of sentencepiece_model.proto.
    """
    found: dict[int, dict[int, int]] = {2: {}, 3: {}}
    charsmap = b""
    try:
        for number, value in _fields(data):
            if number in found and isinstance(value, bytes):
                fields = dict(_fields(value))
                found[number] |= {inner: item for inner, item in fields.items() if isinstance(item, int)}
                table = fields.get(2) if number == 3 else None
                charsmap = table if isinstance(table, bytes) else charsmap
    except (IndexError, ValueError):
        raise DamagedFile("not a SentencePiece model (broken message)", where=where) from None
    return found[2], found[3], charsmap


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


def _without_cutting_out(data: bytes, ids: Collection[int], where: str) -> bytes:
    """The model with some of its USER_DEFINED pieces set to UNUSED (sentencepiece_model.proto, SentencePiece.Type)."""
    out, place, id, ids = bytearray(), 0, 0, frozenset(ids)  # Gemma has 6,000 of 262,000
    try:
        while place < len(data):
            start = place
            key, place = _varint(data, place)
            length = 0
            if key & 7 == 2:
                length, place = _varint(data, place)
            elif key & 7 == 0:
                place = _varint(data, place)[1]
            place += {1: 8, 2: length, 5: 4}.get(key & 7, 0)
            field = data[start:place]
            if key >> 3 == 1:
                content = data[place - length : place]
                if id in ids and dict(_fields(content)).get(3) == _USER_DEFINED:
                    content += _AS_UNUSED  # a later field wins over the one before it
                    field = bytes([10]) + _as_varint(len(content)) + content
                id += 1
            out += field
    except (IndexError, ValueError):
        raise DamagedFile("not a SentencePiece model (broken message)", where=where) from None
    return bytes(out)


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


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
        self._plain = model.unable_to_read([piece for piece, id in enumerate(ids) if id in special_ids])
        self.ids: Sequence[int] = list(ids)
        self._to_piece = {published: piece for piece, published in enumerate(ids)}
        self.names: Sequence[str] = list(names)
        lookup: dict[str, int] = {}
        for id, name in enumerate(names):
            lookup.setdefault(name, id)
        self.lookup: Mapping[str, int] = lookup
        self.special_ids = special_ids
        self.clean = clean
        self._always = _Matcher([token for token in added if not token.special], lookup)
        self._all = _Matcher(list(added), lookup)
        self._keeps_prefix = prefix_after_special
        self._joining: dict[bool, PieceModel] = {}

    def encode(self, texts: Sequence[str], *, allow_special_text: bool) -> list[Pieces]:
        matcher = self._all if allow_special_text else self._always
        model = self._model if allow_special_text else self._plain
        if not matcher:
            return self._run(model.processor, list(texts))
        return [self._joined(list(matcher.split(text)), model) for text in texts]

    def mixed(self, parts: Sequence[str | int]) -> list[int]:
        """Ids of plain texts and of the special tokens between them, as if a text with both had been read."""
        cut: list[tuple[int, int | str, int]] = []
        for part in parts:
            if isinstance(part, str) and self._always:
                cut += self._always.split(part)
            else:
                cut.append((0, part, 0))
        return self._joined(cut, self._plain)[0]

    def _joined(self, parts: list[tuple[int, int | str, int]], model: PieceModel) -> Pieces:
        """Encode the stretches between added tokens and put everything in one line."""
        ids: list[int] = []
        offsets: list[Offset] = []
        for number, (start, what, end) in enumerate(parts):
            if isinstance(what, int):
                ids.append(what)
                offsets.append((start, end))
            elif what:
                [(these, spans)] = self._run((self._later(model) if number else model).processor, [what])
                ids += these
                offsets += [(start + first, start + last) for first, last in spans]
        return ids, offsets

    def _later(self, model: PieceModel) -> PieceModel:
        """What reads the text after an added token."""
        if self._keeps_prefix:
            return model
        plain = model is self._plain
        if plain not in self._joining:
            self._joining[plain] = model.without_prefix()
        return self._joining[plain]

    def _run(self, processor: sentencepiece.SentencePieceProcessor, texts: list[str]) -> list[Pieces]:
        aligned = [self.clean(text) for text in texts] if self.clean else None
        inputs = [item.text for item in aligned] if aligned else texts
        made = native(
            lambda: processor.Encode(inputs, return_type="offset_mapping", num_threads=1),
            "the SentencePiece model fails on this text",
            self._model.where,
            quiet=False,
        )
        table = self.ids
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
