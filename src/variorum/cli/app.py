"""The frame around the verbs: the options they share, and the one place where failures become a line and an exit code.

It knows no verb by name; :data:`variorum.cli.VERBS` lists them.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

from cyclopts import App, CycloptsError, Group, Parameter, UnknownCommandError

from variorum import __version__
from variorum.cli import VERBS, output
from variorum.errors import VariorumError, nearest

INTERRUPTED, BROKEN_PIPE, TERMINATED = 130, 141, 143
RUN_FAILED, USAGE, NOT_FOUND, ACCESS, OVER_BUDGET = 1, 2, 3, 4, 5

SHARED_OPTIONS = Group("Options of every command", sort_key=99)


def build() -> App:
    """The application: verbs by import path, so that listing them imports none."""
    app = App(
        name="variorum",
        help="The transformer family as an edition with variants: every model a short diff on its ancestor.",
        help_format="plaintext",
        version=__version__,
        default_parameter=Parameter(negative=()),  # a switch is off unless given: no --no-... beside each
        # The error line and the exit code are made in `run`, for every failure alike.
        print_error=False,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    app["--help"].group = app["--version"].group = SHARED_OPTIONS
    panels = {name: Group(name, sort_key=place) for place, name in enumerate(dict.fromkeys(v.group for v in VERBS))}
    for place, verb in enumerate(VERBS):
        app.command(verb.target, name=verb.name, help=verb.summary, group=panels[verb.group], sort_key=place)

    app.meta.suppress_keyboard_interrupt = False

    @app.meta.default
    def launch(
        *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        format: Annotated[output.Format, Parameter(group=SHARED_OPTIONS)] = "human",
        debug: Annotated[bool, Parameter(group=SHARED_OPTIONS)] = False,
    ) -> object:
        """Run one verb.

        Args:
            words: the verb and its own arguments.
            format: A table for people, one JSON document, or one JSON object a line.
            debug: Show the traceback of a failure.
        """
        output.choose(format)
        return app(words)

    return app


def run(argv: list[str]) -> int:
    """Run the command line ``argv`` and return the exit code; nothing escapes but ``SystemExit``."""
    debug = "--debug" in argv
    signal.signal(signal.SIGTERM, _terminated)
    try:
        code = build().meta(argv or ["--help"])
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


def explain(error: BaseException) -> tuple[str, int]:
    """One line on a failure, and its exit code."""
    if isinstance(error, ImportError) and error.__cause__ is not None:
        error = error.__cause__  # the frame's own wrapper around a verb that cannot be imported
    if isinstance(error, VariorumError):
        return output.one_line(str(error)), error.exit_code
    if isinstance(error, CycloptsError):
        return output.one_line(_usage(error)), USAGE
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", INTERRUPTED
    if isinstance(error, MemoryError):
        return "out of memory; use a smaller batch, length or model", OVER_BUDGET
    if isinstance(error, OSError):
        return output.one_line(_system(error)), _system_code(error)
    if isinstance(error, ModuleNotFoundError):
        return f"the package {error.name} is not installed; install it, and see variorum doctor", RUN_FAILED
    text = output.one_line(f"{type(error).__name__}: {error}".rstrip(": "))
    return f"internal error, {text}; the same command with --debug shows where", RUN_FAILED


def _usage(error: CycloptsError) -> str:
    chain = list(error.command_chain or ())
    if isinstance(error, UnknownCommandError) and error.unused_tokens and not chain:
        # Said here, because the parser would import every verb to find the nearest.
        word = error.unused_tokens[0]
        remedy = nearest(word, [verb.name for verb in VERBS]) or "see variorum --help"
        return f"unknown command {word!r}; {remedy}"
    error.verbose = False
    return f"{str(error).strip().rstrip('.')}; see {' '.join(['variorum', *chain])} --help"


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
