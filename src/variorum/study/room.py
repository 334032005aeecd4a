"""What this machine has left: memory inside the container's limit, disk, cores."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def free_space(folder: Path) -> int:
    """Free bytes on the disk that will hold ``folder``, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def available_memory() -> int | None:
    """Bytes that can be had without swapping, inside this container's limit; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            have = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    try:
        with (
            open("/sys/fs/cgroup/memory.max", encoding="ascii") as limit,
            open("/sys/fs/cgroup/memory.current", encoding="ascii") as used,
        ):
            have = min(have, int(limit.read()) - int(used.read()))
    except (OSError, ValueError):
        pass  # no limit
    return have


def default_workers() -> int:
    """Cells side by side: one per core this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, usable)
