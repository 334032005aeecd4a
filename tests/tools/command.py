"""Run ``variorum`` as a user does: a process of its own, both streams and the exit code kept apart."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

TRACEBACK = "Traceback (most recent call last)"


def variorum(
    *words: str, env: Mapping[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run the command line and return what came of it."""
    return subprocess.run(
        [sys.executable, "-m", "variorum", *words],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        check=False,
    )


def refused(*words: str, code: int, env: Mapping[str, str] | None = None) -> str:
    """Run a command that must fail with ``code``, and return the one line it says."""
    done = variorum(*words, env=env)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert TRACEBACK not in done.stderr
    assert done.stderr.startswith("variorum: ")
    return done.stderr
