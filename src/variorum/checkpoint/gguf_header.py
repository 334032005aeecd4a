"""The header of a GGUF file: its metadata and its table of tensors, checked before anything maps the file.

Every count and length that the file states is held against the bytes that are there before it is used, so that a
damaged file costs neither memory nor time.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (little-endian, versions 2 and 3).
"""

from __future__ import annotations

import dataclasses
import math
import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from variorum.errors import AccessError, DamagedFile, NotFound

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32  # where the file does not say otherwise
MAX_TENSORS, MAX_KEYS, MAX_RANK, MAX_DEPTH = 100_000, 10_000, 4, 2
MAX_NAME, MAX_TEXT, MAX_ITEMS = 1 << 10, 1 << 24, 1 << 22  # bytes of a name, of any text, values of an array

# Type number -> name, elements per block, bytes per block (ggml's ggml_type and its block structures).
TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4),
    27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}  # fmt: skip
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """One tensor: its type, its shape (outermost axis first) and where its bytes begin and end in the file."""

    kind: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Header:
    """What a file says of itself: ``metadata`` by key, ``tensors`` by name in the order of their bytes."""

    metadata: dict[str, Any]
    tensors: dict[str, Entry]


def read_header(path: Path) -> Header:
    """Metadata and tensors of the GGUF file at ``path``.

    Raises:
        NotFound: there is no such file. AccessError: it cannot be read.
        DamagedFile: it is no GGUF file, is cut, or contradicts itself.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < 24:
                raise DamagedFile(f"expected at least 24 bytes, found {size:,}", where=str(path))
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                return _Reading(mapped, size, str(path)).header()
    except FileNotFoundError:
        raise NotFound("no such file", where=str(path), remedy="check the path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise AccessError(f"cannot read ({reason})", where=str(path), remedy="check its permissions") from None


class _Reading:
    """A walk through the header of a mapped file of ``size`` bytes."""

    def __init__(self, data: mmap.mmap, size: int, where: str) -> None:
        self.data, self.size, self.where, self.place = data, size, where, 0

    def damaged(self, what: str, remedy: str = "") -> DamagedFile:
        return DamagedFile(what, where=self.where, remedy=remedy)

    def take(self, count: int) -> int:
        """Step over ``count`` bytes, which must be there; where they begin."""
        begin = self.place
        if count > self.size - begin:
            raise self.damaged(f"cut inside its header: {count:,} more bytes at {begin:,}, the file has {self.size:,}")
        self.place = begin + count
        return begin

    def number(self, code: str) -> Any:
        [value] = struct.unpack_from(f"<{code}", self.data, self.take(struct.calcsize(f"<{code}")))
        return value

    def text(self, limit: int = MAX_TEXT) -> str:
        length = self.number("Q")
        if length > limit:
            raise self.damaged(f"a text of {length:,} bytes at {self.place:,}; at most {limit:,} are read")
        begin = self.take(length)
        try:
            return self.data[begin : begin + length].decode("utf-8")
        except UnicodeDecodeError:
            raise self.damaged(f"text before byte {self.place:,} is not UTF-8") from None

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY or depth == MAX_DEPTH:
            raise self.damaged(f"a value of the unknown type {kind} before byte {self.place:,}")
        item, count = self.number("I"), self.number("Q")
        if count > MAX_ITEMS:
            raise self.damaged(f"an array of {count:,} values at {self.place:,}; at most {MAX_ITEMS:,} are read")
        if item in _SCALARS:
            begin = self.take(count * struct.calcsize(f"<{_SCALARS[item]}"))
            return list(struct.unpack_from(f"<{count}{_SCALARS[item]}", self.data, begin))
        read: Callable[[], Any] = self.text if item == _STRING else lambda: self.value(item, depth + 1)
        return [read() for _ in range(count)]

    def header(self) -> Header:
        if self.data[self.take(4) : 4] != MAGIC:
            raise self.damaged("is not a GGUF file", "its first four bytes would be GGUF")
        version = self.number("I")
        if version not in VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
            what = "is big-endian" if swapped else f"is of GGUF version {version}"
            raise self.damaged(f"{what}; versions 2 and 3, little-endian, are read", "convert it with llama.cpp")
        tensors, keys = self.number("Q"), self.number("Q")
        if tensors > MAX_TENSORS or keys > MAX_KEYS:
            raise self.damaged(f"claims {tensors:,} tensors and {keys:,} keys")
        metadata: dict[str, Any] = {}
        for _ in range(keys):
            name = self.text(MAX_NAME)
            if name in metadata:
                raise self.damaged(f"key {name[:80]!r} occurs twice")
            metadata[name] = self.value(self.number("I"))
        table = [self._tensor() for _ in range(tensors)]
        return Header(metadata=metadata, tensors=self._placed(table, metadata))

    def _tensor(self) -> tuple[str, str, tuple[int, ...], int, int]:
        """A line of the table: name, type, shape, offset in the data, bytes."""
        name, rank = self.text(MAX_NAME), self.number("I")
        if rank > MAX_RANK:
            raise self.damaged(f"tensor {name[:80]!r} has {rank:,} axes; at most {MAX_RANK} are read")
        shape = tuple(self.number("Q") for _ in range(rank))[::-1]  # the file counts from the innermost axis
        kind, offset = self.number("I"), self.number("Q")
        if kind not in TYPES:
            raise self.damaged(f"tensor {name[:80]!r} is of the unknown type {kind}")
        label, block, width = TYPES[kind]
        if not shape or shape[-1] % block:
            raise self.damaged(f"tensor {name[:80]!r} of shape {list(shape)} cannot be cut into blocks of {block}")
        return name, label, shape, offset, math.prod(shape) // block * width

    def _placed(
        self, table: list[tuple[str, str, tuple[int, ...], int, int]], metadata: dict[str, Any]
    ) -> dict[str, Entry]:
        """The tensors, each within the file and none over another."""
        alignment = metadata.get("general.alignment", ALIGNMENT)
        if type(alignment) is not int or not 0 < alignment <= 1 << 20 or alignment % 8:
            raise self.damaged(f"an alignment of {alignment!r:.40}")
        start = -(-self.place // alignment) * alignment
        entries: dict[str, Entry] = {}
        filled = start
        for name, kind, shape, offset, length in sorted(table, key=lambda row: (row[3], row[4])):
            begin, end = start + offset, start + offset + length
            if name in entries:
                raise self.damaged(f"tensor {name[:80]!r} occurs twice")
            if offset % alignment or begin < filled:
                raise self.damaged(f"tensor {name[:80]!r} at {offset:,} overlaps another, or is not aligned")
            if end > self.size:
                raise self.damaged(f"cut: tensor {name[:80]!r} ends at {end:,}, the file has {self.size:,} bytes")
            entries[name] = Entry(kind=kind, shape=shape, begin=begin, end=end)
            filled = end
        return entries
