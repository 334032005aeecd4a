"""The frame around the verbs: the options they share, and the one place where failures become a line and an exit code.

It knows no verb by name; :data:`variorum.cli.VERBS` lists them.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NamedTuple, NoReturn, cast

from variorum.cli import VERBS, Verb, output
from variorum.cli.reading import Verbs, read
from variorum.errors import UsageError, VariorumError, nearest

INTERRUPTED, BROKEN_PIPE, TERMINATED = 130, 141, 143
RUN_FAILED, USAGE, NOT_FOUND, ACCESS, OVER_BUDGET = 1, 2, 3, 4, 5
FORMATS, HELP = ("human", "json", "jsonl"), ("--help", "-h")


class Asked(NamedTuple):
    """A command line without the options that all verbs share."""

    words: list[str]
    format: str = "human"
    help: bool = False


def run(argv: list[str]) -> int:
    """Run the command line ``argv`` and return the exit code; nothing escapes but ``SystemExit``."""
    debug = "--debug" in argv
    signal.signal(signal.SIGTERM, _terminated)
    try:
        code = dispatch(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone; point stdout elsewhere, or the interpreter's own flush fails at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic in a Rust extension is no Exception
        if debug:
            import traceback

            traceback.print_exception(error)
        line, code = explain(error)
        output.say(f"variorum: {line}")
    return code if isinstance(code, int) else 0


def dispatch(argv: Sequence[str]) -> object:
    """Do what ``argv`` says: by the reader where it is plain, by the full parser otherwise.

    Raises:
        UsageError: no such command. Whatever the verb raises.
    """
    asked = asked_by(argv)
    if asked is None or (asked.words and asked.words[0].startswith("-")):
        return _fully(argv)
    output.choose(cast("output.Format", asked.format))
    if not asked.words:
        from variorum.cli.page import front

        print(front())
        return 0
    word, *words = asked.words
    verb = next((verb for verb in VERBS if verb.name == word), None)
    if verb is None:
        raise _unknown(word, [verb.name for verb in VERBS], "variorum")
    return _verb(verb, words, asked.help, argv)


def asked_by(argv: Sequence[str]) -> Asked | None:
    """``argv`` with the shared options apart; ``None`` where what it means is not plain."""
    words, format, help = [], "human", False
    left = list(argv)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if word in HELP:
            help = True
        elif name == "--format":
            value = value if equals else left.pop(0) if left else ""
            if value not in FORMATS:
                return None
            format = value
        elif word in ("--", "--version"):
            return None
        elif word != "--debug":
            words.append(word)
    return Asked(words, format, help)


def _verb(verb: Verb, words: list[str], help: bool, argv: Sequence[str]) -> object:
    command, name = importlib.import_module(f"variorum.cli.{verb.module}").command, verb.name
    if isinstance(command, Verbs):
        if not words:
            from variorum.cli.page import of_verbs

            print(of_verbs(name, command))
            return 0
        inner, *words = words
        if inner not in command.verbs:
            raise _unknown(inner, list(command.verbs), f"variorum {name}")
        command, name = command.verbs[inner], f"{name} {inner}"
    if not callable(command) or not hasattr(command, "__code__"):
        return _fully(argv)
    if help:
        from variorum.cli.page import of_verb

        shown = of_verb(name, command)
        if shown is None:
            return _fully(argv)
        print(shown)
        return 0
    given = read(command, words)
    return _fully(argv) if given is None else command(*given[0], **given[1])


def _fully(argv: Sequence[str]) -> object:
    from variorum.cli.full import build

    return build().meta(list(argv) or ["--help"])


def _unknown(word: str, known: list[str], where: str) -> UsageError:
    return UsageError(f"unknown command {word!r}", remedy=nearest(word, known) or f"see {where} --help")


def explain(error: BaseException) -> tuple[str, int]:
    """One line on a failure, and its exit code."""
    if isinstance(error, ImportError) and error.__cause__ is not None:
        error = error.__cause__  # the parser's own wrapper around a verb that cannot be imported
    if isinstance(error, VariorumError):
        return output.one_line(str(error)), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", INTERRUPTED
    if isinstance(error, MemoryError):
        return "out of memory; use a smaller batch, length or model", OVER_BUDGET
    if isinstance(error, OSError):
        return output.one_line(_system(error)), _system_code(error)
    if isinstance(error, ModuleNotFoundError):
        return f"the package {error.name} is not installed; install it, and see variorum doctor", RUN_FAILED
    if "cyclopts" in sys.modules:
        from cyclopts import CycloptsError

        from variorum.cli.full import usage

        if isinstance(error, CycloptsError):
            return output.one_line(usage(error)), USAGE
    text = output.one_line(f"{type(error).__name__}: {error}".rstrip(": "))
    return f"internal error, {text}; the same command with --debug shows where", RUN_FAILED


def _system(error: OSError) -> str:
    where = error.filename if error.filename is not None else ""
    remedy = {
        errno.ENOENT: "check the path",
        errno.EACCES: "check the permissions",
        errno.ENOSPC: "free some space and run the same command again",
    }.get(error.errno or 0, "")
    what = (error.strerror or str(error) or type(error).__name__).lower()
    return "; ".join(part for part in (f"{where}: {what}" if where else what, remedy) if part)


def _system_code(error: OSError) -> int:
    if isinstance(error, FileNotFoundError):
        return NOT_FOUND
    if isinstance(error, PermissionError):
        return ACCESS
    return OVER_BUDGET if error.errno == errno.ENOSPC else RUN_FAILED


def _terminated(signum: int, frame: FrameType | None) -> NoReturn:
    """Unwind on SIGTERM as on an interrupt, so that files are closed and checkpoints finished."""
    raise SystemExit(TERMINATED)
