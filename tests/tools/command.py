"""Run ``variorum`` as a user does, both streams and the exit code kept apart.

In a process of its own (:func:`variorum`) where that is what is tested: what another process, a kill or an environment
makes of it. Else in this one (:func:`here`), which has torch already and is some seconds sooner.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from unittest.mock import patch

from variorum.cli import main

TRACEBACK = "Traceback (most recent call last)"


def variorum(
    *words: str, env: Mapping[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own and return what came of it."""
    return subprocess.run(
        [sys.executable, "-m", "variorum", *words],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        check=False,
    )


def here(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, with nothing on stdin, and return what came of it."""
    out, err, nothing = StringIO(), StringIO(), TextIOWrapper(BytesIO())
    with patch.object(sys, "stdin", nothing), redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def refused(*words: str, code: int, env: Mapping[str, str] | None = None) -> str:
    """Run a command that must fail with ``code``, and return the one line it says; with an environment, alone."""
    done = variorum(*words, env=env) if env else here(*words)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert TRACEBACK not in done.stderr
    assert done.stderr.startswith("variorum: ")
    return done.stderr
