"""What executors that leave this machine have in common: cells handed out up to a number, answers asked for in turns.

Where a cell is computed must have the same code, torch and kind of processor as here, for its result is kept under a
hash of them; a machine that differs fails the cell. Folders of a study must be seen there under the same path.
"""

from __future__ import annotations

import os
import platform
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, Self

from variorum.study.cells import code_digest
from variorum.study.executor import TICK, Advanced, Answer, Event, Job, Report, Started, Tick, answer, event_of

Home = tuple[str, str, str]


def home() -> Home:
    """What a result depends on beside its cell: torch's release, the kind of processor, the code."""
    return metadata.version("torch"), platform.machine(), code_digest()


def carried(job: Job, threads: int, wanted: Home, report: Report) -> tuple[str, Answer]:
    """Carry out a job over there; the name of the process, and what it answers."""
    os.environ.update(OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    import torch

    torch.set_num_threads(threads)
    worker = f"{platform.node()}:{os.getpid()}"
    found = home()
    if found != wanted:
        what = ("torch", "processor", "code")
        other = " and ".join(name for name, a, b in zip(what, found, wanted, strict=True) if a != b)
        return worker, ("failed", (f"{platform.node()} has another {other}", f"there {found}, here {wanted}"))
    return worker, answer(job, report)


class Remote(ABC):
    """The loop of such an executor; what it is made of is handed out, asked for, and called back.

    Args:
        workers: jobs side by side; None where entering it settles that.
        threads: of each.
    """

    def __init__(self, *, workers: int | None, threads: int) -> None:
        self.wanted, self.workers, self.threads = workers, workers or 1, threads
        self._running: dict[str, tuple[Job, Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for _, handle in self._running.values():
            self._call_back(handle)
        self._running = {}

    def memory(self) -> int | None:
        """Nobody says, unless the executor does."""
        return None

    @abstractmethod
    def _hand_out(self, job: Job) -> Any:
        """Begin a job; what it is asked for by."""

    @abstractmethod
    def _ask(self, handle: Any) -> tuple[str, Answer] | None:
        """Its worker and answer, or None while it runs."""

    @abstractmethod
    def _call_back(self, handle: Any) -> None:
        """End it."""

    def _advanced(self) -> Mapping[str, int]:
        """Units done by job, of those that tell."""
        return {}

    def run(self, jobs: Sequence[Job]) -> Iterator[Event]:
        """Yield events until every job has finished or failed."""
        waiting, told = deque(jobs), dict[str, int]()
        while waiting or self._running:
            while waiting and len(self._running) < self.workers:
                job = waiting.popleft()
                self._running[job.name] = job, self._hand_out(job)
                yield Started(job)
            time.sleep(TICK)
            yield Tick()
            for name, done in self._advanced().items():
                if name in self._running and told.get(name) != done:
                    told[name] = done
                    yield Advanced(self._running[name][0], done)
            for name, (job, handle) in list(self._running.items()):
                if (found := self._ask(handle)) is not None:
                    del self._running[name]
                    worker, said = found
                    yield event_of(job, said, worker)


def lost(cause: str, detail: str) -> tuple[str, Answer]:
    """The answer of a job whose worker gave none."""
    first = cause.strip().splitlines()[0] if cause.strip() else "no cause is known"
    return "", ("failed", (f"its worker was lost: {first}", detail))
