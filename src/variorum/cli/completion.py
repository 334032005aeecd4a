"""``variorum completion``: the script that makes a shell complete verbs and options."""

from __future__ import annotations

from typing import Literal

from variorum.cli import build
from variorum.cli.output import emit, say


def command(shell: Literal["bash", "zsh", "fish"] | None = None, *, install: bool = False) -> None:
    """The completion script for a shell.

    Args:
        shell: the shell; found from the running one unless given.
        install: put the script where the shell looks for it, instead of printing it.
    """
    from cyclopts.completion import ShellDetectionError

    from variorum.errors import UsageError

    app = build()
    try:
        if install:
            path = app.install_completion(shell=shell)
            say("it takes effect in the next shell")
            emit({"installed": path})
        else:
            script = app.generate_completion(shell=shell)
            emit({"script": script}, human=script)
    except ShellDetectionError:
        raise UsageError("cannot tell which shell this is", remedy="name it: variorum completion bash") from None
