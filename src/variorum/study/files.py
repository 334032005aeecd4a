"""Files that are whole or absent: written beside their place, synced, then renamed into it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from variorum.errors import AccessError, OverBudget


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` so that a reader, or a kill at any moment, never sees half of it.

    Raises:
        OverBudget: the disk is full. AccessError: the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        name = path.parent / f".{path.name}.{secrets.token_hex(6)}.tmp"
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # the user's umask decides who may read
    except OSError as error:
        raise AccessError(f"cannot write ({error.strerror})", where=str(path), remedy="choose another --out") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        raise OverBudget(
            f"could not write {len(content):,} bytes ({error.strerror})",
            where=str(path),
            remedy="free space, run again",
        ) from error
    finally:
        name.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the platform can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove what writers killed halfway left behind."""
    for leftover in folder.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)
