"""Refusals of commands, seen without the seconds that a process of their own takes to read torch."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.tools.command import TRACEBACK
from variorum.cli import main


@pytest.fixture
def refuse(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """``refuse(*words, code=N)`` runs a command that must fail with N, and gives the one line that it says."""

    def run(*words: str, code: int) -> str:
        handler = signal.getsignal(signal.SIGTERM)
        capsys.readouterr()
        try:
            found = main(words)
        finally:
            signal.signal(signal.SIGTERM, handler)
        out, err = capsys.readouterr()
        assert found == code, (found, err)
        assert out == ""
        assert err.count("\n") == 1, err
        assert TRACEBACK not in err
        assert err.startswith("variorum: ")
        return err

    return run
