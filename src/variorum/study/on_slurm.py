"""Cells on a Slurm cluster, each a job of its own, by submitit.

Partition, account and the like are what sbatch's own variables say: SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from variorum.errors import NotFound
from variorum.study.executor import Answer, Job
from variorum.study.remote import Remote, carried, home, lost

LONGEST = 24 * 60
"""Minutes that a job may take, unless SBATCH_TIMELIMIT says otherwise."""
MANY = 64
"""Jobs in the queue at a time, unless told otherwise."""


class Submitted(Remote):
    """Jobs of a batch system.

    Args:
        folder: for scripts, logs and answers; every node must see it.
        system: as submitit names it: slurm, or local for processes of this machine.
    """

    def __init__(self, folder: Path, *, workers: int | None, threads: int, system: str = "slurm") -> None:
        super().__init__(workers=workers or MANY, threads=threads)
        self.folder, self.system = folder, system

    def __enter__(self) -> Self:
        try:
            import submitit
        except ImportError:
            raise NotFound("submitit is not installed", remedy="pip install 'variorum[slurm]'") from None
        try:
            self._batch: Any = submitit.AutoExecutor(folder=self.folder, cluster=self.system)
        except RuntimeError as error:
            raise NotFound(str(error), where=f"--executor {self.system}", remedy="run it where sbatch is") from None
        self._batch.update_parameters(timeout_min=LONGEST, cpus_per_task=self.threads, name="variorum")
        return self

    def _hand_out(self, job: Job) -> Any:
        return self._batch.submit(carried, job, self.threads, home(), _unheard)

    def _ask(self, handle: Any) -> tuple[str, Answer] | None:
        if not handle.done():
            return None
        try:
            said: tuple[str, Answer] = handle.result()
        except Exception as error:  # whatever befell the job is the study's news, not its end
            return lost(str(error), repr(error))
        return said

    def _call_back(self, handle: Any) -> None:
        handle.cancel()


def _unheard(done: int) -> None:
    """A batch job has no line back."""
