"""The full parser: every verb as a cyclopts application, for mistakes, unusual spellings and completion scripts.

:mod:`variorum.cli.reading` reads most command lines without it.
"""

from __future__ import annotations

import dataclasses
import importlib
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Group, Parameter

from variorum import __version__
from variorum.cli import VERBS, output
from variorum.cli.page import ABOUT
from variorum.cli.reading import Option, Verbs, resolved

SHARED_OPTIONS = Group("Options of every command", sort_key=99)


def build() -> App:
    """The application: verbs by import path, so that listing them imports none."""
    app = App(
        name="variorum",
        help=ABOUT,
        help_format="plaintext",
        version=__version__,
        default_parameter=Parameter(negative=()),  # a switch is off unless given: no --no-... beside each
        # The error line and the exit code are made in `app.run`, for every failure alike.
        print_error=False,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    app["--help"].group = app["--version"].group = SHARED_OPTIONS
    panels = {name: Group(name, sort_key=place) for place, name in enumerate(dict.fromkeys(v.group for v in VERBS))}
    for place, verb in enumerate(VERBS):
        at = f"{__name__}:{verb.module}"
        app.command(at, name=verb.name, help=verb.summary, group=panels[verb.group], sort_key=place)

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


def __getattr__(name: str) -> Any:
    """The verb in the file ``name``, as the parser takes it."""
    verb = next((verb for verb in VERBS if verb.module == name), None)
    if verb is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    command = importlib.import_module(f"variorum.cli.{name}").command
    if isinstance(command, App):
        return command
    if not isinstance(command, Verbs):
        return _marked(command)
    app = App(name=verb.name, help=command.summary, help_format="plaintext")
    for inner, function in command.verbs.items():
        app.command(_marked(function), name=inner)
    return app


def _marked(command: Callable[..., object]) -> Callable[..., object]:
    """A copy of ``command`` whose annotations are in the parser's words instead of the reader's."""
    known = typing.cast("types.FunctionType", command)
    copy = types.FunctionType(
        known.__code__, known.__globals__, known.__name__, known.__defaults__, known.__closure__
    )  # fmt: skip
    copy.__doc__, copy.__kwdefaults__, copy.__module__ = known.__doc__, known.__kwdefaults__, known.__module__
    copy.__annotations__ = {name: _in_its_words(hint) for name, hint in resolved(command).items()}
    return copy


def _in_its_words(hint: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return Annotated[hint, Parameter(name="*")]
    if typing.get_origin(hint) is Annotated:
        kind, *marks = typing.get_args(hint)
        for mark in marks:
            if isinstance(mark, Option):
                mark = Parameter(
                    name=mark.name or None, consume_multiple=mark.many or None, help=mark.help or None
                )  # fmt: skip
            kind = Annotated[kind, mark]
        return kind
    return hint


def usage(error: CycloptsError) -> str:
    """One line on words that the parser refuses, and where to read on."""
    error.verbose = False
    chain = " ".join(["variorum", *(error.command_chain or ())])
    return f"{str(error).strip().rstrip('.')}; see {chain} --help"
