"""``variorum-manifest.json``: what our own saves consist of, with the length and SHA-256 of each file.

A directory with a manifest is verified whole before it is used. One without is a published directory: its integrity
is unknown, and nothing can tell a flipped bit in a weight from a trained value.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from variorum.errors import AccessError, DamagedFile, NotFound

from .paths import file_inside, is_inside, read_json

NAME = "variorum-manifest.json"
FORMAT = 1
# Files that some reader would pick up by their name alone; a stray one could take the place of a verified one.
READ_BY_NAME = {".safetensors", ".json", ".txt", ".model", ".jinja"}
_SHA256 = re.compile("[0-9a-f]{64}")


def listed(directory: Path) -> dict[str, tuple[str, int]] | None:
    """What the manifest lists, by file name: SHA-256 and bytes. None where there is no manifest.

    Raises:
        DamagedFile: the manifest is no manifest of format 1. AccessError: it may not be read.
    """
    path = directory / NAME
    try:
        document = read_json(path)
    except NotFound:
        return None
    files = document.get("files")
    if document.get("format") != FORMAT or set(document) != {"format", "files"} or not isinstance(files, dict):
        raise DamagedFile(f"is not a manifest of format {FORMAT}", where=str(path))
    return {name: _entry(name, value, path) for name, value in files.items()}


def _entry(name: str, value: Any, path: Path) -> tuple[str, int]:
    if is_inside(name) and isinstance(value, dict) and set(value) == {"sha256", "bytes"}:
        digest, size = value["sha256"], value["bytes"]
        if isinstance(digest, str) and _SHA256.fullmatch(digest) and type(size) is int and size >= 0:
            return digest, size
    raise DamagedFile(f"does not give sha256 and bytes of {name[:80]!r}", where=str(path))


def verify(directory: Path) -> bool:
    """Compare every file of a directory with its manifest.

    Returns:
        True when all are as they were saved; False when there is no manifest, so that integrity is unknown.

    Raises:
        DamagedFile: a file is missing, differs, or was added where a reader would pick it up.
        AccessError: a file may not be read.
    """
    files = listed(directory)
    if files is None:
        return False
    for name, (digest, size) in files.items():
        try:
            path = file_inside(directory, name)
        except NotFound:
            raise DamagedFile(f"missing, though {NAME} lists it", where=str(directory / name)) from None
        _compare(path, digest, size)
    added = sorted(p.name for p in directory.iterdir() if p.suffix in READ_BY_NAME and p.name not in {NAME, *files})
    if added:
        raise DamagedFile(
            f"not part of what was saved ({NAME} does not list it)",
            where=str(directory / added[0]),
            remedy="move it away",
        )
    return True


def _compare(path: Path, digest: str, size: int) -> None:
    try:
        with path.open("rb") as file:
            found = file.seek(0, 2)
            if found != size:
                raise DamagedFile(f"expected {size:,} bytes by {NAME}, found {found:,}", where=str(path))
            file.seek(0)
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise AccessError(f"cannot read ({error.strerror})", where=str(path)) from None
    if actual != digest:
        raise DamagedFile(
            f"not as it was saved: expected sha256 {digest} by {NAME}, found {actual}",
            where=str(path),
            remedy="restore the file, or save the model again",
        )


def content(files: Mapping[str, tuple[str, int]]) -> bytes:
    """The manifest of files given by name as SHA-256 and bytes."""
    entries = {name: {"sha256": digest, "bytes": size} for name, (digest, size) in sorted(files.items())}
    return json.dumps({"format": FORMAT, "files": entries}, indent=1).encode() + b"\n"
