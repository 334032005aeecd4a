"""What a check hands back: a claim, the figure that was found, the one that was expected, and how it was found."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from variorum.errors import UsageError


class NotApplicable(UsageError):
    """The claim is not about a model like this one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One claim beside what was found.

    Attributes:
        found: a figure, or several.
        expected: the figures of the claim, or words for what they must lie within; ``None`` where nothing is judged.
        holds: ``None`` where the figure belongs to this machine, and nobody judges it.
        how: how it was found, and what is often told otherwise.
    """

    claim: str
    found: object
    expected: object
    holds: bool | None
    how: str


def equal(claim: str, found: object, expected: object, how: str) -> Finding:
    """It holds if both are the same."""
    return Finding(claim=claim, found=found, expected=expected, holds=found == expected, how=how)


def near(
    claim: str, found: float | Sequence[float], expected: float | Sequence[float], how: str, *, within: float
) -> Finding:
    """It holds if no figure is further than ``within`` from its own."""
    figures, wanted = (one if isinstance(one, Sequence) else [one] for one in (found, expected))
    holds = all(abs(a - b) <= within for a, b in zip(figures, wanted, strict=True))
    return Finding(claim=claim, found=found, expected=expected, holds=holds, how=f"{how}; within {within:.2g}")


def below(claim: str, found: float, bound: float, how: str) -> Finding:
    """It holds if the figure is less than ``bound``."""
    return Finding(claim=claim, found=found, expected=f"below {bound:g}", holds=found < bound, how=how)


def above(claim: str, found: float, bound: float, how: str) -> Finding:
    """It holds if the figure is more than ``bound``."""
    return Finding(claim=claim, found=found, expected=f"above {bound:g}", holds=found > bound, how=how)


def measured(claim: str, found: object, how: str) -> Finding:
    """A figure of this machine."""
    return Finding(claim=claim, found=found, expected=None, holds=None, how=how)
