"""What an audit says: figures about the rows, and findings, each with how much it matters and where to look."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

SHOWN = 5
"""Lines that a finding names for people; the data have them all."""


class Severity(enum.Enum):
    """How much a finding matters: figures cannot be believed, somebody should look, or it is as well to know."""

    SERIOUS = "serious"
    LOOK = "worth a look"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was found.

    Attributes:
        check: which kind of check found it.
        what: in words.
        rows: how many rows it is about, and ``share`` of all of them.
        lines: of the file, all of them.
    """

    check: str
    severity: Severity
    what: str
    rows: int
    share: float
    lines: tuple[int, ...] = ()

    @property
    def first(self) -> str:
        """The first lines, for people."""
        more = ", …" if len(self.lines) > SHOWN else ""
        return ", ".join(map(str, self.lines[:SHOWN])) + more


@dataclass
class Audit:
    """Everything that was found.

    Attributes:
        figures: about the rows, by name.
        findings: the serious ones first.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def serious(self) -> list[Finding]:
        """The findings that make figures worthless."""
        return [one for one in self.findings if one.severity is Severity.SERIOUS]

    def add(self, figures: dict[str, Any], findings: Iterable[Finding]) -> None:
        """Take in what a check found."""
        self.figures |= figures
        self.findings = sorted([*self.findings, *findings], key=lambda one: list(Severity).index(one.severity))


@dataclass(frozen=True)
class Sheet:
    """The rows that an audit looks at, with the lines they are on; ``labels`` is empty where there are none."""

    texts: Sequence[str]
    labels: Sequence[str]
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.texts)

    def found(self, check: str, severity: Severity, what: str, places: Sequence[int]) -> Finding:
        """A finding about the rows at these places."""
        lines = tuple(sorted(self.lines[i] for i in places))
        return Finding(check=check, severity=severity, what=what, rows=len(places), lines=lines,
                       share=len(places) / max(1, len(self)))  # fmt: skip
