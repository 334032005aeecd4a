"""Files that are whole or absent: written beside their place, synced, then renamed into it."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

from variorum.errors import AccessError, OverBudget

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where there is no more room."""


def write_whole(path: Path, content: bytes, *, remedy: str = "") -> None:
    """Write ``content`` to ``path`` so that a reader, or a kill at any moment, never sees half of it.

    Args:
        remedy: what to do where it cannot be written.

    Raises:
        OverBudget: there is no room. AccessError: it may not be written.
    """
    name = path.parent / f".{path.name}.{secrets.token_hex(6)}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # the user's umask decides who may read
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        finally:
            name.unlink(missing_ok=True)
    except OSError as error:
        what = f"{len(content):,} bytes cannot be written ({error.strerror})"
        if error.errno in FULL:
            raise OverBudget(what, where=str(path), remedy=remedy or "free space, run again") from error
        raise AccessError(what, where=str(path), remedy=remedy or "choose another place") from error
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
    """Remove what writers killed halfway left behind; only where nobody else writes."""
    for leftover in folder.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)
