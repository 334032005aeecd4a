"""A failure is one line and a documented exit code, whatever it was; results and notes keep to their own streams."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.tools.command import TRACEBACK, refused, variorum
from variorum import __version__
from variorum.cli import VERBS, app, doctor
from variorum.errors import (
    AccessError,
    CheckFailed,
    DamagedFile,
    NotFound,
    OverBudget,
    RunFailed,
    UsageError,
)


class Panic(BaseException):
    """What an extension written in Rust raises: no Exception."""


def test_every_verb_has_its_file_its_summary_and_a_function() -> None:
    listed = variorum("--help").stdout
    for verb in VERBS:
        assert f" {verb.name} " in listed
        assert verb.summary[:40] in listed


def test_version_is_the_packages() -> None:
    assert variorum("--version").stdout == f"{__version__}\n"


def test_no_words_at_all_show_the_help_page() -> None:
    assert variorum().stdout == variorum("--help").stdout


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["docter"], "unknown command 'docter'; did you mean doctor?"),
        (["zzzz"], "unknown command 'zzzz'; see variorum --help"),
        (["doctor", "--nothing"], "Unknown option: --nothing; see variorum doctor --help"),
        (["--format", "xml", "doctor"], "xml"),
        (["download"], "requires an argument"),
    ],
)
def test_a_command_that_cannot_be_read_is_a_usage_error(words: list[str], part: str) -> None:
    assert part in refused(*words, code=2)


AGAIN = "the same command with --debug shows where"
FAILURES = [
    (RunFailed("lost"), 1, "lost"),
    (UsageError("no sense", remedy="say more"), 2, "no sense; say more"),
    (NotFound("is not there", where="m"), 3, "m: is not there"),
    (AccessError("locked"), 4, "locked"),
    (OverBudget("too large"), 5, "too large"),
    (CheckFailed("differs"), 6, "differs"),
    (DamagedFile("bad\nbyte", where="f"), 7, "f: bad byte"),
    (NotFound("\x1b[2Jgone"), 3, "[2Jgone"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (MemoryError(), 5, "out of memory; use a smaller batch, length or model"),
    (FileNotFoundError(errno.ENOENT, "No such file", "a.txt"), 3, "a.txt: no such file; check the path"),
    (PermissionError(errno.EACCES, "Denied", "a"), 4, "a: denied; check the permissions"),
    (OSError(errno.ENOSPC, "Full"), 5, "full; free some space and run the same command again"),
    (ZeroDivisionError("x\ny"), 1, f"internal error, ZeroDivisionError: x y; {AGAIN}"),
    (Panic("at the disco"), 1, f"internal error, Panic: at the disco; {AGAIN}"),
]


PLAIN, FOR_THE_FULL_PARSER = ["doctor", "word"], ["doctor", "--word", "word"]


@pytest.mark.parametrize("words", [PLAIN, FOR_THE_FULL_PARSER], ids=["plain", "full"])
@pytest.mark.parametrize(("error", "code", "line"), FAILURES, ids=[type(failure[0]).__name__ for failure in FAILURES])
def test_each_failure_has_one_line_and_its_own_exit_code(
    error: BaseException,
    code: int,
    line: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(word: str) -> None:
        raise error

    monkeypatch.setattr(doctor, "command", fails)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert app.run(words) == code
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", f"variorum: {line}\n")
        assert app.run([*words, "--debug"]) == code
        assert TRACEBACK in capsys.readouterr().err
    finally:
        signal.signal(signal.SIGTERM, handler)


def test_a_reader_that_goes_away_is_no_failure_to_speak_of() -> None:
    command = f"{sys.executable} -m variorum completion bash | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[1:] == ["141"] or done.stdout.splitlines()[1:] == ["0"]


def test_a_request_to_stop_unwinds_and_gives_143(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys, time
        from variorum.cli import app, doctor
        def command():
            try:
                print("ready", flush=True)
                time.sleep(60)
            finally:
                print("closed", flush=True)
        doctor.command = command
        sys.exit(app.run(["doctor"]))
    """)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=30)
    assert (rest, process.returncode) == ("closed\n", 143)


def test_the_format_may_stand_before_or_after_the_verb() -> None:
    before, after = variorum("--format", "json", "doctor"), variorum("doctor", "--format", "json")
    assert {row["name"] for row in json.loads(before.stdout)} == {row["name"] for row in json.loads(after.stdout)}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_verb(shell: str) -> None:
    script = variorum("completion", shell).stdout
    assert all(verb.name in script for verb in VERBS)


def test_bash_completes_the_name_of_a_verb() -> None:
    ask = (
        'source <("$0" -m variorum completion bash); COMP_WORDS=(variorum doc); COMP_CWORD=1; _variorum;'
        ' echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", ask, sys.executable], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["doctor"]
