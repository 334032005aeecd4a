"""``variorum check``: what is said of the mechanisms, tried here, each with the figure found and the one expected."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from variorum.cli.output import chosen, emit, say, written
from variorum.cli.reading import Option
from variorum.errors import CheckFailed

if TYPE_CHECKING:
    from variorum.checks.finding import Finding
    from variorum.checks.registry import Check

COLUMNS = ("name", "id", "seconds", "models", "title")
VERDICTS = {True: "holds", False: "FAILS", None: "measured"}


class Tried(NamedTuple):
    """A finding, and the check and the model that it is of."""

    check: Check
    model: str | None
    finding: Finding

    @property
    def row(self) -> dict[str, object]:
        """All of it, for programs."""
        return {"check": self.check.name, "id": self.check.id, "model": self.model, **dataclasses.asdict(self.finding)}


Findings: TypeAlias = list[Tried]


def command(
    *names: str,
    model: Annotated[tuple[str, ...], Option(many=True)] = (),
    list: bool = False,
) -> None:
    """Try claims about mechanisms: the figure found, the one expected, and how it was found.

    Exit code 0 if all hold, 6 if one does not.

    Args:
        names: Checks by name or by mechanism, as receptive-field or C4; all if absent.
        model: Models to try them on: the name of a spec for its nano model, or a directory for its weights.
        list: Say which checks there are and how long each takes, and try none.
    """
    from variorum.checks.registry import chosen as checks_named

    checks = checks_named(names)
    if list:
        emit([dataclasses.asdict(check) for check in checks], columns=COLUMNS)
        return
    tried: Findings = []
    for one in _tried(checks, model, asked=bool(names)):
        if chosen() != "json":  # which is one document
            emit(one.row, human=_lines(one, tried[-1] if tried else None))
        tried.append(one)
    if chosen() == "json":
        emit([one.row for one in tried])
    failed = [one for one in tried if one.finding.holds is False]
    if failed:
        where = ", ".join(dict.fromkeys(one.check.name for one in failed))
        raise CheckFailed(f"{len(failed)} of {len(tried)} claims do not hold", where=where)


def _tried(checks: list[Check], models: tuple[str, ...], *, asked: bool) -> Iterator[Tried]:
    """Everything that is found, check by check and model by model."""
    from variorum.checks.finding import NotApplicable
    from variorum.checks.subjects import named

    if models and not asked:
        checks = [check for check in checks if check.models]
    subjects = {reference: named(reference) for reference in models}
    for check in checks:
        if not check.models and not models:
            yield from (Tried(check, None, finding) for finding in check.run())
        for reference in models or check.models:
            subject = subjects.get(reference) or subjects.setdefault(reference, named(reference))
            try:
                yield from (Tried(check, reference, finding) for finding in check.on(subject))
            except NotApplicable as error:
                if asked:
                    raise
                say(f"{check.name}: {error}")


def _lines(one: Tried, before: Tried | None) -> str:
    """The finding for people, under a heading where it is another check's or model's than the one before it."""
    found, about = one.finding, ", ".join(filter(None, (one.check.id, one.model)))
    heading = [] if before and before[:2] == one[:2] else [f"{one.check.name} ({about})"]
    expected = "" if found.expected is None else f"; expected {written(found.expected)}"
    told = [f"  {VERDICTS[found.holds]:<9}{found.claim}", f"found {written(found.found)}{expected}", found.how]
    return "\n".join([*heading, f"\n{'':11}".join(told)])
