"""Executors by the names of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from variorum.study.executor import Executor, LocalPool
from variorum.study.room import default_workers

Named = Literal["local", "ray", "slurm"]


def executor(name: Named, *, workers: int | None, threads: int, folder: Path) -> Executor:
    """Processes here, tasks of a Ray cluster, or jobs of a Slurm cluster.

    Args:
        workers: jobs side by side; None for what is usual there.
        folder: of the study, which every worker must see.
    """
    if name == "ray":
        from variorum.study.on_ray import RayCluster

        return RayCluster(workers=workers, threads=threads)
    if name == "slurm":
        from variorum.study.on_slurm import Submitted

        return Submitted(folder / "slurm", workers=workers, threads=threads)
    return LocalPool(workers=workers or default_workers(), threads=threads)
