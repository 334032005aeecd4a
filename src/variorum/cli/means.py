"""What verbs that carry a study through share: the flags that say by what means."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from variorum.study.session import Limits


@dataclasses.dataclass(frozen=True, kw_only=True)
class Means:
    """What a study may use.

    Args:
        workers: Cells side by side, one thread each; one per core unless given, or what is usual for the executor.
        time_limit: Refuse a plan that may take more than so many minutes.
        executor: What runs the cells: processes here, a Ray cluster (RAY_ADDRESS), or Slurm (SBATCH_PARTITION).
    """

    workers: int | None = None
    time_limit: float | None = None
    executor: Literal["local", "ray", "slurm"] = "local"

    @property
    def limits(self) -> Limits:
        """As a session takes them."""
        from variorum.study.session import Limits

        minutes = self.time_limit
        return Limits(workers=self.workers, executor=self.executor, time=None if minutes is None else 60 * minutes)


MEANS = Means()
