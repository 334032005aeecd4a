"""The tensors of a directory, by the names on disk: checked, memory-mapped, from one file or from shards.

It reads safetensors only. It knows no model and no weight map; :mod:`.writing` is the other direction.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor

from variorum.errors import AccessError, DamagedFile, NotFound

from .header import ITEM_BYTES, Entry, read_header
from .paths import existing_directory, is_plain, read_json, regular_file
from .writing import INDEX, SINGLE, write_directory

__all__ = ["TensorFiles", "check_finite", "forget", "read_json", "write_directory"]

TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "I64": torch.int64, "I32": torch.int32,
    "I16": torch.int16, "I8": torch.int8, "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16,
    "U8": torch.uint8, "BOOL": torch.bool, "C64": torch.complex64,
}  # fmt: skip
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


class TensorFiles:
    """The tensors of a directory, without reading them.

    ``model.safetensors`` is opened, else the shards that ``model.safetensors.index.json`` lists, else the only
    safetensors file there is. Headers are checked against the files' lengths first, and the index against them.

    Args:
        directory: a published directory, or one of ours.

    Attributes:
        shapes: each tensor's shape by its name.
        dtypes: each tensor's type as safetensors spells it (``F32``, ``BF16``), by its name.

    Raises:
        NotFound: no such directory, or no weights in it.
        DamagedFile: a file is damaged or contradicts another.
        AccessError: a file may not be read, or only pickles are there.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = existing_directory(Path(directory))
        shards = _find(self.directory)
        self._file_of = {name: path for path, entries in shards.items() for name in entries}
        self._entries = {name: entry for entries in shards.values() for name, entry in entries.items()}
        self.shapes = {name: entry.shape for name, entry in self._entries.items()}
        self.dtypes = {name: entry.dtype for name, entry in self._entries.items()}
        self._data = {path: _data(path, max(entry.end for entry in entries.values()))
                      for path, entries in shards.items() if entries}  # fmt: skip

    def get(self, name: str) -> Tensor:
        """The tensor ``name``, mapped from its file: its memory is the file's until it is written to.

        Raises:
            KeyError: there is no such tensor; look into ``shapes`` first.
        """
        entry = self._entries[name]
        raw = self._data[self._file_of[name]][entry.begin : entry.end]
        if raw.storage_offset() % ITEM_BYTES[entry.dtype]:
            raw = raw.clone()  # an old writer did not align its data
        return raw.view(TYPES[entry.dtype]).reshape(entry.shape)

    def file_of(self, name: str) -> Path:
        """The file that holds the tensor ``name``."""
        return self._file_of[name]

    def close(self) -> None:
        """Let go of the files; tensors that were handed out stay valid."""
        self._data.clear()

    def __enter__(self) -> TensorFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def forget(mapped: Tensor) -> None:
    """Give back the memory behind a tensor that was mapped from a file, and never written to, after it was copied.

    It is read from the file again if anybody looks. Nothing happens where the system cannot do this.
    """
    if not sys.platform.startswith("linux") or not mapped.is_contiguous():
        return
    begin, end = mapped.data_ptr(), mapped.data_ptr() + mapped.nbytes
    begin, end = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
    if end > begin:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_DONTNEED)


def _data(path: Path, length: int) -> Tensor:
    """The last ``length`` bytes of a file, uint8: a private mapping, read when it is used and never written back."""
    size = path.stat().st_size
    try:
        storage = torch.UntypedStorage.from_file(str(path), shared=False, nbytes=size)
    except (OSError, RuntimeError) as error:
        raise DamagedFile(f"cannot be mapped ({str(error).splitlines()[0][:160]})", where=str(path)) from None
    whole = torch.empty(0, dtype=torch.uint8).set_(storage)  # type: ignore[arg-type]
    return whole[size - length :]


def _find(directory: Path) -> dict[Path, dict[str, Entry]]:
    """The weight files of a directory with their checked headers."""
    try:
        names = sorted(path.name for path in directory.iterdir())
    except OSError as error:
        raise AccessError(f"cannot list ({error.strerror})", where=str(directory)) from None
    safe = [name for name in names if name.endswith(".safetensors")]
    if SINGLE in safe:
        safe = [SINGLE]
    elif INDEX in names:
        return _from_index(directory)
    if len(safe) == 1:
        path = regular_file(directory, safe[0])
        return {path: read_header(path)}
    if safe:
        raise DamagedFile(f"has {len(safe)} safetensors files and no {INDEX}", where=str(directory))
    pickles = sorted((name for name in names if name.endswith(PICKLES)), key=lambda name: "model" not in name)
    if pickles:
        raise AccessError(
            "is a pickle, which can run code when it is opened, and is never opened here",
            where=str(directory / pickles[0]),
            remedy=f"get {SINGLE} from its publisher, or run `variorum convert {directory} OUT --from-pickle`",
        )
    raise NotFound("no weights", where=str(directory), remedy=f"expected {SINGLE} or {INDEX} with its shards")


def _from_index(directory: Path) -> dict[Path, dict[str, Entry]]:
    """The shards that the index lists; it and their headers must agree on every tensor."""
    where = str(directory / INDEX)
    listed = read_json(directory / INDEX).get("weight_map")
    if not isinstance(listed, dict) or not listed or not all(isinstance(file, str) for file in listed.values()):
        raise DamagedFile("has no weight_map from tensors to files", where=where)
    by_file: dict[str, set[str]] = {}
    for name, file in listed.items():
        by_file.setdefault(file, set()).add(name)
    shards: dict[Path, dict[str, Entry]] = {}
    for file, expected in sorted(by_file.items()):
        if not is_plain(file) or not file.endswith(".safetensors"):
            raise DamagedFile(f"names {file[:80]!r}, which is not a safetensors file beside it", where=where)
        try:
            path = regular_file(directory, file)
        except NotFound:
            raise DamagedFile(f"lists {file!r}, which is missing", where=where) from None
        shards[path] = read_header(path)
        for names, what in ((expected - set(shards[path]), "not in it"), (set(shards[path]) - expected, "not listed")):
            if names:
                raise DamagedFile(f"disagrees with {file}: tensor {min(names)[:200]!r} is {what}", where=where)
    return shards


def check_finite(name: str, tensor: Tensor, *, where: str = "") -> None:
    """See that a tensor holds no NaN and no infinity; whole numbers never do.

    Args:
        name: what to call it.
        tensor: any shape and type.
        where: its file.

    Raises:
        DamagedFile: it does.
    """
    if not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
        return
    values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    if values.element_size() == 1:  # 8-bit floats have no arithmetic of their own
        values = values.float()
    low, high = torch.aminmax(values)  # one pass without a copy; NaN wins both
    if math.isfinite(low.item()) and math.isfinite(high.item()):
        return
    count = int((~torch.isfinite(values)).sum())
    raise DamagedFile(f"tensor {name!r} holds {count:,} values that are not finite (NaN or infinity)", where=where)
