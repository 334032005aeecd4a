"""Which files of a directory may be opened, and bounded JSON from them.

A directory comes from anywhere: its names are checked before they become paths, its links may not lead out, and only
regular files are read. Nothing here knows tensors.
"""

from __future__ import annotations

import errno
import re
import stat
from pathlib import Path
from typing import Any

from variorum.errors import AccessError, DamagedFile, NotFound
from variorum.text.guard import parse_json

# DeepSeek-V3's index, the largest published, has 9 MB. JSON can grow twentyfold when parsed: the limit bounds that.
MAX_JSON_BYTES = 16 * 2**20
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


def is_plain(name: str) -> bool:
    """Whether ``name`` is one relative path component, on POSIX and on Windows alike."""
    return (
        0 < len(name) <= 255
        and name.isprintable()
        and not set('/\\:*?"<>|') & set(name)
        and name.strip(" ") == name
        and not name.endswith(".")
        and not _RESERVED.fullmatch(name)
    )


def is_inside(name: str) -> bool:
    """Whether ``name`` is a plain file name, or "folder/name" with a plain folder."""
    parts = name.split("/")
    return len(parts) <= 2 and all(map(is_plain, parts))


def existing_directory(directory: Path) -> Path:
    """``directory``, which must be one.

    Raises:
        NotFound: it is not; the remedy says where an interrupted replacement left the earlier save.
    """
    if directory.is_dir():
        return directory
    aside = next(directory.parent.glob(f".{directory.name}.old-*"), None) if directory.name else None
    remedy = f"a save was interrupted; the one before it is {aside}" if aside else ""
    raise NotFound("no such directory", where=str(directory), remedy=remedy)


def file_inside(directory: Path, name: str) -> Path:
    """:func:`regular_file` for a name that :func:`is_inside`; its folder is no link."""
    folder, _, leaf = name.rpartition("/")
    if folder and (not is_plain(folder) or (directory / folder).is_symlink()):
        raise DamagedFile(f"names a file in {folder[:80]!r}, which is no plain folder", where=str(directory))
    return regular_file(directory / folder, leaf)


def regular_file(directory: Path, name: str) -> Path:
    """The path of a regular file in ``directory``.

    A link may lead to another file of the directory, or, in a Hub cache (``snapshots/REVISION/name``), into the
    ``blobs`` of the same repository.

    Raises:
        NotFound: there is no such file.
        DamagedFile: the name is no plain file name, or a link leads elsewhere, or it is no regular file.
        AccessError: it may not be looked at.
    """
    if not is_plain(name):
        raise DamagedFile(f"names the file {name[:80]!r}, which is not a plain file name", where=str(directory))
    path = directory / name
    try:
        real, home = path.resolve(strict=True), directory.resolve()
        mode = real.stat().st_mode
    except FileNotFoundError:
        raise NotFound("no such file", where=str(path)) from None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        raise _unreadable(path, error) from None
    homes = {home, home.parent.parent / "blobs"} if home.parent.name == "snapshots" else {home}
    if real.parent not in homes:
        raise DamagedFile(
            f"is a link to {str(real)[:200]!r}, outside of its directory", where=str(path), remedy="copy the file in"
        )
    if not stat.S_ISREG(mode):
        raise DamagedFile("is not a regular file", where=str(path))
    return path


def read_bytes(path: Path, limit: int = MAX_JSON_BYTES) -> bytes:
    """The content of a file of at most ``limit`` bytes in a directory that nobody vouches for.

    Raises:
        NotFound: there is no such file. DamagedFile: it is too long, or not what :func:`regular_file` allows.
        AccessError: it may not be read.
    """
    path = regular_file(path.parent, path.name)
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(content) > limit:
        raise DamagedFile(f"expected at most {limit:,} bytes, found {path.stat().st_size:,}", where=str(path))
    return content


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file: of bounded size and depth, without duplicate keys or numbers beyond JSON.

    Raises:
        NotFound, DamagedFile, AccessError: as :func:`read_bytes`; DamagedFile also for what is not such an object.
    """
    return parse_json(read_bytes(path), path)


def _unreadable(path: Path, error: Exception) -> AccessError | DamagedFile:
    if isinstance(error, RuntimeError) or getattr(error, "errno", None) == errno.ELOOP:
        return DamagedFile("is a loop of links", where=str(path))
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return AccessError(f"cannot read ({reason})", where=str(path), remedy="check its permissions")
