"""Every failure a user can meet, with its documented exit code.

An error says what happened, where, and what to do about it; the command line prints exactly that
line and nothing else. Library callers catch :class:`VariorumError` or one of its kinds.
"""

from __future__ import annotations

from collections.abc import Iterable


class VariorumError(Exception):
    """A failure with a remedy.

    Args:
        what: what went wrong, one clause, no full stop.
        where: the file, field, tensor or row concerned.
        remedy: what the user can do.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__("; ".join(part for part in (f"{where}: {what}" if where else what, remedy) if part))


class RunFailed(VariorumError):
    """The run itself failed (exit 1)."""


class UsageError(VariorumError):
    """The request makes no sense as given (exit 2)."""

    exit_code = 2


class NotFound(VariorumError):
    """A model, file or field does not exist (exit 3)."""

    exit_code = 3


class AccessError(VariorumError):
    """A file or service exists but may not be used (exit 4)."""

    exit_code = 4


class OverBudget(VariorumError):
    """The job does not fit the memory, time or disk it was given (exit 5)."""

    exit_code = 5


class CheckFailed(VariorumError):
    """A check that the user asked for did not hold (exit 6)."""

    exit_code = 6


class DamagedFile(VariorumError):
    """A file is damaged, or does not match what it claims to be (exit 7)."""

    exit_code = 7


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy naming the known names closest to ``name``, or an empty string."""
    import difflib  # on a mistake only: it takes as long as all of this module

    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else ""
