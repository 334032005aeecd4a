"""ByT5's engine: a token is a byte, id = byte + 3 (Xue et al. 2022; google-research/byt5). No file, no training."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .encoding import Offset, Pieces

SPECIALS = ("<pad>", "</s>", "<unk>")
SENTINELS = 125
_SENTINEL = re.compile(r"<extra_id_(\d{1,3})>|" + "|".join(map(re.escape, SPECIALS)))


class ByteEngine:
    """UTF-8 bytes behind the :class:`~variorum.text.tokenizer.Engine` protocol.

    A byte of a longer character has the offsets of that character. Sentinels count up after the bytes.
    """

    def __init__(self, sentinel_count: int = SENTINELS) -> None:
        sentinels = [f"<extra_id_{number}>" for number in range(sentinel_count)]
        self.names: Sequence[str] = [*SPECIALS, *map(chr, range(256)), *sentinels]
        self.lookup: Mapping[str, int] = {name: id for id, name in enumerate(self.names)}
        self.special_ids = frozenset({0, 1, 2, *range(259, 259 + sentinel_count)})

    def encode(self, texts: Sequence[str], *, allow_special_text: bool) -> list[Pieces]:
        return [self._one(text, allow_special_text) for text in texts]

    def _one(self, text: str, allow_special_text: bool) -> Pieces:
        ids: list[int] = []
        offsets: list[Offset] = []
        done = 0
        for match in _SENTINEL.finditer(text) if allow_special_text else ():
            if match.group() in self.lookup:
                self._bytes(text, done, match.start(), ids, offsets)
                ids.append(self.lookup[match.group()])
                offsets.append(match.span())
                done = match.end()
        self._bytes(text, done, len(text), ids, offsets)
        return ids, offsets

    @staticmethod
    def _bytes(text: str, start: int, end: int, ids: list[int], offsets: list[Offset]) -> None:
        for place in range(start, end):
            raw = text[place].encode("utf-8")
            ids += [byte + len(SPECIALS) for byte in raw]
            offsets += [(place, place + 1)] * len(raw)

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """Bytes that are not UTF-8 are dropped, as the released code does."""
        raw = b""
        for id in ids:
            if id not in self.special_ids:
                raw += bytes([id - len(SPECIALS)])
            elif not skip_special:
                raw += self.names[id].encode("utf-8")
        return raw.decode("utf-8", errors="ignore")
