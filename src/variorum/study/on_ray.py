"""Cells on a Ray cluster: each a task of so many CPUs, wherever there is room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from variorum.errors import NotFound
from variorum.study.executor import Answer, Job
from variorum.study.remote import Home, Remote, carried, home, lost


class RayCluster(Remote):
    """The cluster that this process is connected to, or RAY_ADDRESS names, or that runs here; else a fresh one here."""

    def __enter__(self) -> Self:
        try:
            import ray
        except ImportError:
            raise NotFound("ray is not installed", remedy="pip install 'variorum[ray]'") from None
        self._ray: Any = ray
        self._ours = not ray.is_initialized()
        if self._ours:
            ray.init(log_to_driver=False, logging_level="error")
        room = ray.cluster_resources()
        self.workers = self.wanted or max(1, int(room.get("CPU", 1)) // self.threads)
        self._bytes = int(room["memory"]) if "memory" in room else None
        self._board: Any = ray.remote(num_cpus=0)(_Board).remote()
        self._task = ray.remote(num_cpus=self.threads, max_retries=0)(_carried)
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self._ray.kill(self._board)
        if self._ours:
            self._ray.shutdown()

    def memory(self) -> int | None:
        """What the cluster's nodes offer together."""
        return self._bytes

    def _hand_out(self, job: Job) -> Any:
        return self._task.remote(job, self.threads, home(), self._board)

    def _ask(self, handle: Any) -> tuple[str, Answer] | None:
        if not self._ray.wait([handle], timeout=0)[0]:
            return None
        try:
            said: tuple[str, Answer] = self._ray.get(handle)
        except self._ray.exceptions.RayError as error:
            return lost(str(error), repr(error))
        return said

    def _call_back(self, handle: Any) -> None:
        self._ray.cancel(handle, force=True)

    def _advanced(self) -> Mapping[str, int]:
        found: dict[str, int] = self._ray.get(self._board.read.remote())
        return found


class _Board:
    """Where tasks write how far they are."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}

    def note(self, name: str, done: int) -> None:
        self.done[name] = done

    def read(self) -> dict[str, int]:
        return self.done


def _carried(job: Job, threads: int, wanted: Home, board: Any) -> tuple[str, Answer]:
    return carried(job, threads, wanted, lambda done: board.note.remote(job.name, done))
