"""Runs cells side by side: an executor's contract, and the local pool of worker processes.

Each worker is a fresh process that loads torch once, with a pinned number of threads, and computes cells
until there are none. It dies with its parent, ignores the terminal's interrupt (the parent decides), and its
own death costs one cell. Results travel back to the parent, which alone writes files. Executors that leave this
machine are `on_ray` and `on_slurm`; `executors` finds them by name.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Literal, Protocol, Self

from variorum.errors import VariorumError
from variorum.study.room import available_memory

TICK = 0.5
"""Seconds between two :class:`Tick` events when nothing else happens."""
READY = ("variorum.builder", "variorum.objectives.making", "variorum.training.session")
"""What most cells import: loaded by a worker before its first job, so that it is in no cell's time."""
Report = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """``call`` is ``module:function``; it runs as ``function(report=…, **arguments)`` and returns a picklable value."""

    name: str
    call: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Started:
    """A worker took the job."""

    job: Job


@dataclass(frozen=True)
class Advanced:
    """The job has done so many of its units."""

    job: Job
    done: int


@dataclass(frozen=True)
class Finished:
    """The job returned; ``worker`` names the process that computed it."""

    job: Job
    result: Any
    worker: str = ""


@dataclass(frozen=True)
class Failed:
    """The job raised, or its worker died; ``detail`` is for a log file, ``cause`` for a person."""

    job: Job
    cause: str
    detail: str


@dataclass(frozen=True)
class Tick:
    """Time passed."""


Event = Started | Advanced | Finished | Failed | Tick


class Executor(Protocol):
    """Runs jobs in any order; yields every event; never raises for a job's failure. Leaving it ends what still runs.

    Attributes:
        workers: jobs side by side, settled once it was entered.
    """

    workers: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def run(self, jobs: Sequence[Job]) -> Iterator[Event]: ...

    def memory(self) -> int | None:
        """Bytes that all workers together may take; None where nobody says."""


Answer = tuple[Literal["finished"], Any] | tuple[Literal["failed"], tuple[str, str]]
"""What a job returned, or its cause and detail; it travels between processes."""


def answer(job: Job, report: Report) -> Answer:
    """Carry out a job in this process."""
    try:
        module, _, function = job.call.partition(":")
        call = getattr(importlib.import_module(module), function)
        return "finished", call(report=report, **job.arguments)
    except VariorumError as error:
        return "failed", (str(error), traceback.format_exc())
    except Exception as error:  # a cell's fault is the study's news, not its end
        first = str(error).splitlines()[0] if str(error) else ""
        return "failed", (f"{type(error).__name__}: {first}", traceback.format_exc())


def event_of(job: Job, said: Answer, worker: str) -> Finished | Failed:
    """The end of a job, from what its worker answered."""
    return Finished(job, said[1], worker) if said[0] == "finished" else Failed(job, *said[1])


class LocalPool:
    """Worker processes on this machine."""

    def __init__(self, *, workers: int, threads: int) -> None:
        self.workers, self.threads = workers, threads
        self._pool: list[_Worker] = []

    def __enter__(self) -> LocalPool:
        self._pool = [_Worker(self.threads) for _ in range(self.workers)]
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self._pool:
            worker.stop()
        self._pool = []

    def memory(self) -> int | None:
        """What this machine, or this container, has left."""
        return available_memory()

    def run(self, jobs: Sequence[Job]) -> Iterator[Event]:
        """Yield events until every job has finished or failed."""
        waiting = deque(jobs)
        while waiting or any(worker.job for worker in self._pool):
            for i, worker in enumerate(self._pool):
                if waiting and worker.job is None:
                    if not worker.alive:
                        worker.stop()
                        worker = self._pool[i] = _Worker(self.threads)
                    worker.give(waiting.popleft())
            busy = [worker for worker in self._pool if worker.job]
            ready = wait([worker.pipe for worker in busy], timeout=TICK)
            if not ready:
                yield Tick()
            for worker in busy:
                if worker.pipe in ready:
                    yield worker.hear()


class _Worker:
    """One child process and the job it holds."""

    def __init__(self, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.job: Job | None = None
        self.process = context.Process(target=_serve, args=(theirs, threads), daemon=True)
        with _deaf(), _environment({"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}):
            self.process.start()
        theirs.close()

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    def give(self, job: Job) -> None:
        self.job = job
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a death is heard as the end of the pipe
            self.pipe.send(job)

    def hear(self) -> Event:
        job = self.job
        assert job is not None, "only busy workers are heard"
        try:
            kind, payload = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.job = None
            self.process.join(5)
            return Failed(job, _death(self.process.exitcode), "the worker process ended without an answer")
        if kind == "started":
            return Started(job)
        if kind == "advanced":
            return Advanced(job, payload)
        self.job = None
        return event_of(job, (kind, payload), str(self.process.pid))

    def stop(self) -> None:
        self.pipe.close()
        self.process.terminate()
        self.process.join(2)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Children started meanwhile ignore the terminal's interrupt from their first moment on."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set it; `_serve` does so a moment later
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables that a child must find at its very start, set for as long as it takes to start it."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}"
    return f"its process ended with exit code {code}"


def _serve(pipe: Connection, threads: int) -> None:
    """The worker's life: load torch, then compute what comes through the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    import torch

    for name in READY:
        importlib.import_module(name)
    torch.set_num_threads(threads)
    while True:
        try:
            job: Job = pipe.recv()
        except (EOFError, ConnectionResetError):
            return
        pipe.send(("started", None))
        pipe.send(answer(job, lambda done: pipe.send(("advanced", done))))


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
