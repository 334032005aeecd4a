"""Running a verb in this process, and its answer as text or as data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from variorum.cli import main


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command prints; it must succeed and keep stderr clean."""
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """The one JSON document that the command prints."""
    return json.loads(said(capsys, *words, "--format", "json"))


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    """The JSON objects that the command prints, one a line."""
    return [json.loads(line) for line in said(capsys, *words, "--format", "jsonl").splitlines()]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code and the one line of a command that must fail."""
    code = main(words)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return code, err
