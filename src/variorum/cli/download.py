"""``variorum download``: a published model, fetched into the Hugging Face cache or taken from it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from variorum.cli.output import emit


class Fetched(NamedTuple):
    """A model on this disk."""

    model: str
    revision: str
    folder: Path
    files: int
    bytes: int


def command(model: str, *, revision: str | None = None, offline: bool = False, to: Path | None = None) -> None:
    """Fetch a published model into the cache.

    Args:
        model: the repository, org/name or org/name@revision, or the name of a spec that records its own.
        revision: a branch, tag or commit; main unless given.
        offline: use the cache alone, never the network.
        to: also copy the files into this folder.
    """
    from variorum.hub import cached, copied, fetched, named, offline_by_environment

    repository, revision = named(model, revision)
    if offline or offline_by_environment():
        folder = cached(repository, revision)
    else:
        folder = fetched(repository, revision)
    if to is not None:
        folder = copied(folder, to)
    files = [path for path in folder.rglob("*") if path.is_file()]
    commit = folder.name if to is None else revision
    size = sum(path.stat().st_size for path in files)
    row = Fetched(repository, commit, folder, len(files), size)
    emit(row._asdict())
