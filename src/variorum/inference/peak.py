"""How much memory this process has taken at its height, and how it hands back what it no longer needs."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

ROOM = 1.08
"""Height of memory in a run over that of its first steps: rows of ever other lengths leave gaps in the heap."""
SHAPES = 64
"""Compiled kernels that oneDNN may keep: it makes one for every shape, some 0.2 MiB each, and would keep 1,024."""


def peak_bytes() -> int:
    """Resident memory of this process at its height; 0 where the system does not say.

    Linux counts the height of the process that started this one into what ``getrusage`` tells.
    """
    if (found := _status("VmHWM:")) is not None:
        return found
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident_bytes() -> int:
    """Resident memory of this process now; its height where the system does not say."""
    found = _status("VmRSS:")
    return peak_bytes() if found is None else found


def _status(field: str) -> int | None:
    """Bytes that Linux tells of this process."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
    except (OSError, StopIteration):
        return None


def give_back() -> None:
    """Hand freed memory back to the system, where its C library can (glibc).

    Tensors of ever other sizes leave gaps in the heap: without this, a run on rows of unequal lengths grows by a third
    in a thousand steps.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def forget_shapes() -> None:
    """Have oneDNN keep few compiled kernels, unless the environment says how many; before it has made its first.

    Rows of ever other lengths never need an old one again: kept, they take 200 MiB in a thousand steps, and lie between
    the blocks that are freed, so that the heap cannot shrink.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(SHAPES))
