"""``variorum check``: what is said of the mechanisms, tried here, each with the figure found and the one expected."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, TypeAlias

from variorum.cli.output import chosen, emit, say, written
from variorum.cli.reading import Option
from variorum.errors import CheckFailed, UsageError

if TYPE_CHECKING:
    from variorum.checks.finding import Finding
    from variorum.checks.registry import Check

COLUMNS = ("name", "id", "seconds", "models", "title")
VERDICTS = {True: "holds", False: "FAILS", None: "measured"}


@dataclasses.dataclass(frozen=True)
class Tried:
    """A finding, and what it was found by."""

    check: str
    id: str
    model: str | None
    claim: str
    found: object
    expected: object
    holds: bool | None
    how: str


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
            emit(one, human=_lines(one, tried[-1] if tried else None))
        tried.append(one)
    if chosen() == "json":
        emit(tried)
    failed = [one for one in tried if one.holds is False]
    if failed:
        names_of = ", ".join(dict.fromkeys(one.check for one in failed))
        raise CheckFailed(f"{len(failed)} of {len(tried)} claims do not hold", where=names_of)


def _tried(checks: list[Check], models: tuple[str, ...], *, asked: bool) -> Iterator[Tried]:
    """Everything that is found, check by check and model by model."""
    from variorum.checks.finding import NotApplicable
    from variorum.checks.subjects import named

    if models and not asked:
        checks = [check for check in checks if check.models]
    loaded = {reference: named(reference) for reference in models}
    for check in checks:
        if not check.models and models:
            raise UsageError(f"{check.name} is about no one model", remedy="leave out --model")
        if not check.models:
            yield from (_of(check, None, finding) for finding in check.run())
        for reference in models or check.models:
            subject = loaded.get(reference) or loaded.setdefault(reference, named(reference))
            try:
                yield from (_of(check, reference, finding) for finding in check.on(subject))
            except NotApplicable as error:
                if asked:
                    raise
                say(f"{check.name}: {error}")


def _of(check: Check, model: str | None, finding: Finding) -> Tried:
    return Tried(check.name, check.id, model, **dataclasses.asdict(finding))


def _lines(one: Tried, before: Tried | None) -> str:
    """The finding for people, under a heading where it is another check's or model's than the one before it."""
    about = f"{one.check} ({', '.join(filter(None, (one.id, one.model)))})"
    heading = [] if before and (before.check, before.model) == (one.check, one.model) else [about]
    expected = "" if one.expected is None else f"; expected {written(one.expected)}"
    told = f"{'':11}found {written(one.found)}{expected}"
    return "\n".join([*heading, f"  {VERDICTS[one.holds]:<9}{one.claim}", told, f"{'':11}{one.how}"])
