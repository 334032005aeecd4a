"""An engine in a process of its own: engines that share one slow each other down, and share their peaks of memory.

The process sleeps between its turns. Both sides speak in lines of JSON; arrays travel as files.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

ROOT = Path(__file__).parents[2]
#: Of every engine: as many threads as the machine has cores, two at most, and the allocator as it comes.
THREADS = min(2, len(os.sched_getaffinity(0)))
PROFILE = "/proc/self/status"


class Missing(Exception):
    """An engine that is not installed here, or cannot do the job; the table says so."""


class Broken(Exception):
    """An engine that failed at the job; the table says so, and for ours the run fails."""


class Worker:
    """The near side: start an engine's process and ask it."""

    def __init__(self) -> None:
        self._arrays = tempfile.TemporaryDirectory(prefix="variorum-bench-")
        threads = {name: str(THREADS) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        env = {**os.environ, **threads, "TOKENIZERS_PARALLELISM": "true", "HF_HUB_OFFLINE": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.harness.worker", self._arrays.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE if quiet() else None, env=env,
            cwd=ROOT,
        )  # fmt: skip

    def make(self, what: str, given: Mapping[str, Any]) -> float:
        """Make a job ready: ``"module:function"`` and its arguments. Returns the seconds that took.

        Raises:
            Missing, Broken: it cannot be made.
        """
        return float(self._ask({"make": what, "given": dict(given)})["seconds"])

    def run(self, times: int = 1, case: Mapping[str, Any] | None = None) -> tuple[list[float], Any]:
        """Do the job so many times, on ``case`` if it takes any; returns the seconds of each, and the last answer.

        Raises:
            Broken: the job failed.
        """
        said = self._ask({"run": times, "case": dict(case or {})})
        answer = np.load(said["array"]) if said["array"] else said["answer"]
        return said["seconds"], answer

    def memory(self) -> tuple[int, int]:
        """Bytes that the process holds now, and held at most since this was last asked."""
        said = self._ask({"memory": True})
        return int(said["now"]), int(said["peak"])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._arrays.cleanup()

    def _ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Broken("its process ended") from None
        line = self._process.stdout.readline()
        if not line:
            raise Broken(f"its process ended with {self._process.wait()}")
        said: dict[str, Any] = json.loads(line)
        if "missing" in said:
            raise Missing(said["missing"])
        if "failed" in said:
            raise Broken(said["failed"])
        return said


def quiet() -> bool:
    """Whether what engines write to stderr is kept from the reader."""
    return "BENCH_VERBOSE" not in os.environ


def serve(arrays: Path, asked: IO[bytes], answers: IO[bytes]) -> None:
    """The far side: answer until the near side is gone."""
    job: Any = None
    numbers = itertools.count()
    for line in asked:
        message = json.loads(line)
        try:
            begin = time.perf_counter()
            if "make" in message:
                job = made(message["make"], message["given"])
                said: dict[str, Any] = {"seconds": time.perf_counter() - begin}
            elif "memory" in message:
                said = memory()
            else:
                said = _run(job, message, arrays / f"{next(numbers)}.npy")
        except ModuleNotFoundError as error:
            said = {"missing": f"{error.name} is not installed"}
        except Missing as error:
            said = {"missing": str(error)}
        except Exception as error:  # whatever a peer raises is told, and the others go on
            said = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
        answers.write(json.dumps(said).encode() + b"\n")
        answers.flush()


def made(what: str, given: Mapping[str, Any]) -> Any:
    """The job that ``"module:function"`` makes."""
    module, _, name = what.partition(":")
    return getattr(importlib.import_module(module), name)(**given)


def _run(job: Any, message: Mapping[str, Any], place: Path) -> dict[str, Any]:
    seconds, answer = [], None
    for _ in range(message["run"]):
        begin = time.perf_counter()
        answer = job(**message["case"])
        seconds.append(time.perf_counter() - begin)
    if isinstance(answer, np.ndarray):
        np.save(place, answer, allow_pickle=False)
        return {"seconds": seconds, "array": str(place), "answer": None}
    return {"seconds": seconds, "array": None, "answer": answer}


def memory() -> dict[str, int]:
    """Resident bytes of this process, now and at the highest; the highest begins anew.

    What the allocator keeps for later is given back first.
    """
    peak = _resident("VmHWM")
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as stream:
        stream.write("5")
    return {"now": _resident("VmRSS"), "peak": peak}


def _resident(name: str) -> int:
    with open(PROFILE, encoding="ascii") as stream:
        words = {line.partition(":")[0]: line.split() for line in stream}
    return int(words[name][1]) * 1024


if __name__ == "__main__":
    # Libraries print what they like; only answers go to the near side.
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(Path(sys.argv[1]), sys.stdin.buffer, channel)
