"""What a check found, held to its own judgement."""

from __future__ import annotations

from collections.abc import Iterable

from variorum.checks.finding import Finding


def held(findings: Iterable[Finding]) -> dict[str, object]:
    """The figures found, by claim; all of them hold, and something was judged."""
    found = list(findings)
    assert [one for one in found if one.holds is False] == []
    assert any(one.holds for one in found)
    return {one.claim: one.found for one in found}
