"""The header of a safetensors file, checked before anything maps the file.

Everything a header says is compared with the file's length: each tensor's bytes with its shape, all tensors together
with the data. What this module accepts, the library opens; what is damaged is refused here, with byte counts.
Format: https://github.com/huggingface/safetensors (8 bytes of length, JSON, data without holes).
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

from variorum.errors import AccessError, DamagedFile
from variorum.text.guard import parse_json

# Bytes per element, of the types that torch can hold.
ITEM_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I64": 8, "I32": 4, "I16": 2, "I8": 1,
    "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1, "C64": 8,
}  # fmt: skip
MAX_TENSORS = 100_000
MAX_RANK = 8
MAX_HEADER_BYTES = 16 * 2**20  # 100,000 tensors with long names
LENGTH_BYTES = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """One tensor: its type as safetensors spells it, its shape, and where its bytes begin and end in the data."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(path: Path) -> dict[str, Entry]:
    """The tensors of a file by name, in the order of their bytes.

    Raises:
        DamagedFile: the file is cut, longer than it says, or contradicts itself.
        AccessError: it may not be read.
    """
    where = str(path)
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            length = int.from_bytes(file.read(LENGTH_BYTES), "little")
            if size < LENGTH_BYTES:
                raise DamagedFile(f"expected at least {LENGTH_BYTES} bytes, found {size:,}", where=where)
            if length > MAX_HEADER_BYTES:
                claim = f"it claims {length:,} (the file has {size:,})"
                raise DamagedFile(f"expected a header of at most {MAX_HEADER_BYTES:,} bytes, {claim}", where=where)
            if LENGTH_BYTES + length > size:
                expected = LENGTH_BYTES + length
                raise DamagedFile(
                    f"cut inside its header: expected at least {expected:,} bytes, found {size:,}", where=where
                )
            content = file.read(length)
    except OSError as error:
        raise AccessError(f"cannot read ({error.strerror})", where=where, remedy="check its permissions") from None
    document = parse_json(content, path)
    if not content.startswith(b"{"):
        raise DamagedFile("its header does not begin with {", where=where)
    metadata = document.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise DamagedFile("its __metadata__ is not a map of strings", where=where)
    if len(document) > MAX_TENSORS:
        raise DamagedFile(f"expected at most {MAX_TENSORS:,} tensors, found {len(document):,}", where=where)
    entries = {name: _entry(name, value, where) for name, value in document.items()}
    entries = dict(sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)))
    _check_layout(entries, LENGTH_BYTES + length, size, where)
    return entries


def _entry(name: str, value: Any, where: str) -> Entry:
    """One tensor's line of the header, its bytes counted against its shape."""

    def damaged(what: str) -> DamagedFile:
        return DamagedFile(f"tensor {name[:200]!r} {what}", where=where)

    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise damaged("is not described by dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise damaged(f"has the unknown type {repr(dtype)[:40]}")
    if not isinstance(shape, list) or len(shape) > MAX_RANK or not all(_is_count(axis) for axis in shape):
        raise damaged(f"has no valid shape (at most {MAX_RANK} whole numbers)")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_count(offset) for offset in offsets):
        raise damaged("has no valid data_offsets (two whole numbers)")
    begin, end = offsets
    # Python's integers do not overflow, and each of at most eight axes is below 2^63.
    expected = math.prod(shape) * ITEM_BYTES[dtype]
    if end - begin != expected:
        raise damaged(f"of type {dtype} and shape {shape} takes {expected:,} bytes, its offsets give {end - begin:,}")
    return Entry(dtype=dtype, shape=tuple(shape), begin=begin, end=end)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63  # `True` is an int to isinstance


def _check_layout(entries: dict[str, Entry], data: int, size: int, where: str) -> None:
    """The tensors lie one after another and fill the file, which is ``size`` bytes with ``data`` bytes before them."""
    filled = 0
    for name, entry in entries.items():
        if entry.begin != filled:
            what = "overlaps the one before it" if entry.begin < filled else "leaves a hole before it"
            raise DamagedFile(f"tensor {name[:200]!r} {what}: at {entry.begin:,}, not {filled:,}", where=where)
        filled = entry.end
    if data + filled != size:
        what = "cut" if size < data + filled else "longer than its header says"
        raise DamagedFile(f"{what}: expected {data + filled:,} bytes, found {size:,}", where=where)
