"""A directory of our own, whole or not at all: written beside its place, synced, then put there in one step.

A kill, a full disk or a refusal at any moment leaves what was there before as it was. The manifest is written last, so
that nothing without one is ever taken for a finished save. This module writes bytes; it knows no model.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from variorum.errors import AccessError, DamagedFile, OverBudget, UsageError
from variorum.files import FULL

from . import manifest
from .header import ITEM_BYTES, LENGTH_BYTES
from .paths import is_inside

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
NAMES = {  # widest first: the order of tensors in a file, the library's own
    torch.uint64: "U64", torch.int64: "I64", torch.float64: "F64", torch.complex64: "C64", torch.float32: "F32",
    torch.uint32: "U32", torch.int32: "I32", torch.bfloat16: "BF16", torch.float16: "F16", torch.uint16: "U16",
    torch.int16: "I16", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
CHUNK_BYTES = 64 * 2**20  # tensors that are not in memory in one piece are copied this much at a time
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of renameat2(2)


def write_directory(
    directory: Path,
    tensors: Mapping[str, Tensor],
    others: Mapping[str, bytes],
    *,
    max_shard_bytes: int = 5 * 2**30,
    metadata: Mapping[str, str] | None = None,
    single: str = SINGLE,
) -> None:
    """Write safetensors, the other files and a manifest as ``directory``, or leave everything as it was.

    Args:
        directory: where. It may be absent, empty, or an earlier save of ours with nothing else in it.
        tensors: by the names on disk, in the order of the shards; any layout in memory.
        others: the content of every other file by its name, which may be in a folder: "folder/name".
        max_shard_bytes: tensors beyond this are spread over ``model-00001-of-0000N.safetensors`` with an index.
        metadata: strings for the header of each file; ``{"format": "pt"}`` if absent.
        single: what the file of tensors is called where one is enough.

    Raises:
        UsageError: the directory holds something else, or another save into it is running.
        OverBudget: the disk is too small. AccessError: it may not be written.
    """
    directory = Path(directory).resolve()
    _check_names(others)
    check_ours(directory)
    shards = _shards(tensors, max_shard_bytes)
    headers = {file: _header(part, {"format": "pt"} if metadata is None else metadata) for file, part in shards.items()}
    others = dict(others)
    if list(shards) == [SINGLE]:
        shards, headers = {single: shards[SINGLE]}, {single: headers[SINGLE]}
    else:
        others[INDEX] = _index(shards)
    needed = sum(t.numel() * t.element_size() for t in tensors.values())
    needed += sum(len(content) for content in (*headers.values(), *others.values()))
    with filling(directory, needed) as place:
        folders = sorted({place / Path(name).parent for name in others} - {place})
        for folder in folders:
            folder.mkdir()
        written = {name: _write(place / name, [content]) for name, content in others.items()}
        for folder in folders:
            _sync(folder)
        for file, part in shards.items():
            written[file] = _write(place / file, [headers[file], *_pieces(part)])
        _write(place / manifest.NAME, [manifest.content(written)])


@contextmanager
def filling(directory: Path, needed: int) -> Iterator[Path]:
    """A new directory to write into, which is put where ``directory`` is when all went well, and gone otherwise.

    The files in it must be synced, its manifest written last. ``needed`` bytes must be free.

    Raises:
        UsageError: another save into it is running. OverBudget: the disk is too small. AccessError: it may not be
            written.
    """
    with failures(directory, needed):
        directory.parent.mkdir(parents=True, exist_ok=True)
        for leftover in directory.parent.glob(f".{directory.name}.tmp-*"):
            _sweep(leftover)
        free = shutil.disk_usage(directory.parent).free
        if free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with _workplace(directory) as place:
            yield place
            _sync(place)
            _put(place, directory)
            _sync(directory.parent)


def _check_names(others: Mapping[str, bytes]) -> None:
    for name in others:
        if not is_inside(name) or name in (manifest.NAME, INDEX) or name.endswith(".safetensors"):
            raise UsageError(f"{name[:80]!r} cannot be a file beside the weights")


def check_ours(directory: Path) -> None:
    """Only what we wrote ourselves is ever replaced, and nothing that someone put beside it is lost."""
    try:
        names = {path.name for path in directory.iterdir()} if directory.exists() else set()
        ours = {*(manifest.listed(directory) or ()), manifest.NAME} if names else set()
        folders = names & {name.partition("/")[0] for name in ours if "/" in name}
        names -= folders
        names |= {f"{folder}/{path.name}" for folder in folders for path in (directory / folder).iterdir()}
    except DamagedFile:
        ours = set()
    except NotADirectoryError:
        raise UsageError("is a file, not a directory", where=str(directory)) from None
    except OSError as error:
        raise AccessError(f"cannot look into it ({error.strerror})", where=str(directory)) from None
    foreign = sorted(names - ours)
    if names and manifest.NAME not in names:
        foreign = sorted(names)
    if foreign:
        raise UsageError(
            f"holds {foreign[0]!r}, which no save of ours put there",
            where=str(directory),
            remedy="save to another directory, or move it away",
        )


def _shards(tensors: Mapping[str, Tensor], limit: int) -> dict[str, dict[str, Tensor]]:
    """The tensors by file, filled in order; one that is larger than the limit has a file of its own."""
    parts: list[dict[str, Tensor]] = [{}]
    filled = 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        if parts[-1] and filled + size > limit:
            parts.append({})
            filled = 0
        parts[-1][name] = tensor
        filled += size
    if len(parts) == 1:
        return {SINGLE: _aligned(parts[0])}
    return {f"model-{i:05}-of-{len(parts):05}.safetensors": _aligned(part) for i, part in enumerate(parts, 1)}


def _aligned(part: dict[str, Tensor]) -> dict[str, Tensor]:
    """Wide elements first, then by name: every tensor begins at a multiple of its element's size."""
    rank = {dtype: i for i, dtype in enumerate(NAMES)}
    return dict(sorted(part.items(), key=lambda item: (rank[item[1].dtype], item[0])))


def _header(part: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The length and the JSON of one file, padded with spaces so that the data begins at a multiple of eight."""
    document: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    begin = 0
    for name, tensor in part.items():
        dtype = NAMES[tensor.dtype]
        end = begin + tensor.numel() * ITEM_BYTES[dtype]
        document[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def _index(shards: Mapping[str, Mapping[str, Tensor]]) -> bytes:
    every = [tensor for part in shards.values() for tensor in part.values()]
    document = {
        "metadata": {"total_size": sum(tensor.numel() * tensor.element_size() for tensor in every)},
        "weight_map": {name: file for file, part in shards.items() for name in part},
    }
    return json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"


def _pieces(part: Mapping[str, Tensor]) -> Iterator[memoryview]:
    """The bytes of the tensors in order, without a second copy of any large one."""
    for tensor in part.values():
        flat = tensor.detach()
        if tensor.is_contiguous() and tensor.device.type == "cpu":
            pieces: Iterable[Tensor] = (flat.reshape(-1),)
        else:
            rows = flat.reshape(1) if flat.dim() == 0 else flat
            size = rows[:1].numel() * rows.element_size()
            pieces = (rows[i].reshape(-1) for i in _slices(len(rows), max(1, CHUNK_BYTES // max(1, size))))
        for piece in pieces:
            yield piece.cpu().contiguous().view(torch.uint8).numpy().data


def _slices(length: int, step: int) -> Iterator[slice]:
    return (slice(i, i + step) for i in range(0, length, step))


def _write(path: Path, pieces: Iterable[bytes | memoryview]) -> tuple[str, int]:
    """Write and sync a file; its SHA-256 and bytes, of what was meant rather than of what the disk gives back."""
    digest, size = hashlib.sha256(), 0
    with path.open("xb", buffering=0) as file:
        for piece in pieces:
            digest.update(piece)
            size += len(piece)
            rest = memoryview(piece)
            while len(rest):
                rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    return digest.hexdigest(), size


@contextmanager
def _workplace(directory: Path) -> Iterator[Path]:
    """A new directory beside ``directory``, locked while its writer lives; gone at the end, whatever is then in it."""
    place = directory.parent / f".{directory.name}.tmp-{os.getpid()}"
    try:
        place.mkdir()
    except FileExistsError:
        raise UsageError("another save into it is running", where=str(directory)) from None
    lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield place
    finally:
        os.close(lock)
        shutil.rmtree(place, ignore_errors=True)


def _sweep(leftover: Path) -> None:
    """Remove what a writer that no longer lives left behind; the lock of one that lives cannot be had."""
    try:
        lock = os.open(leftover, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(leftover, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(lock)


def _put(place: Path, directory: Path) -> None:
    """Put the finished ``place`` where ``directory`` is; what was there is then at ``place``, to be removed."""
    if not directory.exists():
        place.rename(directory)
    elif not _exchange(place, directory):
        # This file system cannot swap two names. Between the two renames the old save stands beside its place.
        aside = directory.parent / f".{directory.name}.old-{os.getpid()}"
        directory.rename(aside)
        try:
            place.rename(directory)
        except OSError:
            aside.rename(directory)
            raise
        shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step; False where the system or the file system cannot."""
    swap = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if swap is None:
        return False
    if swap(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code))


def _sync(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def failures(directory: Path, needed: int) -> Iterator[None]:
    """What the system says, as one of our kinds with the bytes that matter."""
    try:
        yield
    except OSError as error:
        what = f"cannot save ({error.strerror})"
        if error.errno not in FULL:
            raise AccessError(what, where=str(directory), remedy="save to another directory") from error
        existing = next(path for path in directory.parents if path.exists())
        free = shutil.disk_usage(existing).free
        raise OverBudget(
            f"{what}: {needed:,} bytes needed, {free:,} free",
            where=str(directory),
            remedy="free space or save to another directory; nothing was changed",
        ) from error
