"""The boundary to files that nobody vouches for: bounded reading, sane JSON, and native code that may panic.

The native engine raises ``PanicException``, which is no ``Exception``, and prints a report on stderr when a file
breaks its assumptions. Everything here turns that into one :class:`DamagedFile`; nothing here knows tokenizers.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ..errors import AccessError, DamagedFile, NotFound

MAX_BYTES = 256 * 2**20  # the largest published tokenizer.json is about 34 MB

_T = TypeVar("_T")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_stderr_lock = threading.Lock()


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The content of a regular file of at most ``limit`` bytes; a link may not lead out of the file's repository.

    Raises:
        NotFound: there is no such file.
        DamagedFile: a link leads elsewhere, it is no regular file, or it is too large.
        AccessError: it cannot be read.
    """
    try:
        real, home = path.resolve(strict=True), path.parent.resolve()
        # In a Hub cache, snapshots/REVISION/name links into the blobs of the same repository.
        homes = {home, home.parent.parent / "blobs"} if home.parent.name == "snapshots" else {home}
        if real.parent not in homes:
            raise DamagedFile(
                f"is a link to {str(real)[:200]!r}, outside of its directory",
                where=str(path),
                remedy="copy the file in",
            )
        if not real.is_file():
            raise DamagedFile("is not a regular file", where=str(path))
        size = real.stat().st_size
        if size > limit:
            raise DamagedFile(f"{size} bytes is larger than any tokenizer file ({limit} allowed)", where=str(path))
        return real.read_bytes()
    except FileNotFoundError:
        raise NotFound("no such file", where=str(path)) from None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        reason = getattr(error, "strerror", None) or error
        raise AccessError(f"cannot read ({reason})", where=str(path)) from None


def decode_text(data: bytes, path: Path) -> str:
    """UTF-8 text of a file."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedFile(f"not UTF-8 at byte {error.start}", where=str(path)) from None


def parse_json(data: bytes, path: Path) -> dict[str, Any]:
    """A JSON object without duplicate keys, non-finite numbers or absurd depth."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise ValueError(f"key {twice[:40]!r} occurs twice")
        return made

    def no_constant(name: str) -> float:
        raise ValueError(f"{name} is not JSON")

    try:
        document = json.loads(decode_text(data, path), object_pairs_hook=unique, parse_constant=no_constant)
    except RecursionError:
        raise DamagedFile("nested too deeply", where=str(path)) from None
    except ValueError as error:
        raise DamagedFile(f"not valid JSON ({str(error).splitlines()[0][:160]})", where=str(path)) from None
    if not isinstance(document, dict):
        raise DamagedFile(f"expected a JSON object, found {type(document).__name__}", where=str(path))
    return document


def reject_lone_surrogates(data: bytes, document: Mapping[str, Any], path: Path) -> None:
    """Escapes such as ``\\ud800`` parse as JSON but are no text; native code would refuse them late.

    Args:
        data: the file's bytes: without such an escape there is nothing to look for.
        document: the parsed file.
        path: the file, for the message.
    """
    if not _SURROGATE_ESCAPE.search(data):
        return
    stack: list[Any] = [document]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.keys())
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, str) and not item.isascii():
            try:
                item.encode("utf-8")
            except UnicodeEncodeError:
                raise DamagedFile(f"{item[:40]!a} is not text", where=str(path)) from None


def native(call: Callable[[], _T], what: str, where: str, remedy: str = "", *, quiet: bool = True) -> _T:
    """Run native code on unproven data; any failure of it, a panic included, is a :class:`DamagedFile`.

    Args:
        call: what to run.
        what: the clause that says what failed.
        where: the file.
        quiet: hold back what the call prints on stderr, and drop it if the call fails.
    """
    try:
        if not quiet:
            return call()
        with _held_stderr():
            return call()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DamagedFile(f"{what} ({lines[0][:160]})", where=where, remedy=remedy) from None


@contextmanager
def _held_stderr() -> Iterator[None]:
    """Hold file descriptor 2 back; what was written is released at the end unless the block raised."""
    with _stderr_lock:
        try:
            sys.stderr.flush()
            saved = os.dup(2)
        except (OSError, ValueError, AttributeError):
            yield
            return
        with tempfile.TemporaryFile() as held:
            os.dup2(held.fileno(), 2)
            failed = True
            try:
                yield
                failed = False
            finally:
                os.dup2(saved, 2)
                os.close(saved)
                if not failed:
                    held.seek(0)
                    content = held.read()
                    if content:
                        os.write(2, content)
