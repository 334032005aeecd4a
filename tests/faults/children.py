"""One case in one child process, under limits: what it ended in, what it said, and whether it was killed.

The child is forked from a process that has everything imported, so that a case costs milliseconds. A bus error, a
panic of native code or a run-away loop ends the child and is seen here as what it is.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

from variorum.errors import VariorumError

MORE_MEMORY = 512 * 2**20
CPU_SECONDS = 5
WALL_SECONDS = 20  # the machine may be busy; the CPU limit is what a case is held to


@dataclasses.dataclass(frozen=True)
class Outcome:
    """``kind`` is ``returned``, the name of an exception, or the signal; ``line`` the result or the message."""

    kind: str
    line: str
    exit_code: int
    printed: str

    @property
    def is_one_line(self) -> bool:
        """Whether a user is told in one line that a terminal can show, and nothing else is printed."""
        return self.line.isprintable() and 0 < len(self.line) < 2000 and not self.printed


def run(case: Callable[[], object]) -> Outcome:
    """Run ``case`` in a child and wait for it."""
    reading, writing = os.pipe()
    said = os.memfd_create("said")
    child = os.fork()
    if not child:
        _work(case, writing, said)
    os.close(writing)
    try:
        content = _listen(reading, child)
        _, status = os.waitpid(child, 0)
        printed = os.pread(said, 10_000, 0).decode(errors="replace")
    finally:
        os.close(reading)
        os.close(said)
    if os.WIFSIGNALED(status):
        return Outcome(signal.Signals(os.WTERMSIG(status)).name, "", -os.WTERMSIG(status), printed)
    if not content:
        return Outcome("ended", "", os.WEXITSTATUS(status), printed)
    kind, line, code = json.loads(content)
    return Outcome(kind, line, code, printed)


def _listen(reading: int, child: int) -> bytes:
    """What the child reports; it is killed when its time is over."""
    content, until = b"", time.monotonic() + WALL_SECONDS
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            os.kill(child, signal.SIGKILL)
            return b""
        part = os.read(reading, 65536)
        if not part:
            return content
        content += part


def _work(case: Callable[[], object], writing: int, said: int) -> None:
    """The child: never returns."""
    report: tuple[str, str, int] = ("", "", 1)
    try:
        os.dup2(said, 1)
        os.dup2(said, 2)
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MORE_MEMORY, now + MORE_MEMORY))
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (int(used) + CPU_SECONDS, int(used) + CPU_SECONDS + 1))
        report = ("returned", str(case()), 0)
    except VariorumError as error:
        report = (type(error).__name__, str(error), error.exit_code)
    except BaseException as error:  # native panics are no Exception
        report = (type(error).__name__, f"{error!r:.500}", 1)
    finally:
        os.write(writing, json.dumps(report).encode())
        os._exit(0)
