"""Where the published weights lie that some tests compare with; ``make fetch`` brings them.

They belong to their authors and are not part of this repository, so a test that wants them says so and is skipped,
by name, when they are not there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / ".cache" / "weights"


def path(name: str) -> Path | None:
    """The folder of the published model ``name`` (see ``PACKAGES`` in ``fetch.py``), or None if it was not fetched."""
    folder = FOLDER / name
    return folder if folder.is_dir() else None


def need(name: str) -> Path:
    """The folder of the published model ``name``; without it the test is skipped, saying how to have it."""
    folder = path(name)
    if folder is None:
        pytest.skip(f"{name} is not in {FOLDER}; `make fetch` brings it")
    return folder
