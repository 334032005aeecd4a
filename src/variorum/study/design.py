"""What is compared: arms, metric, claims, and what is held equal. All of it is declared before the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variorum.errors import UsageError, nearest
from variorum.study.statistics import Claim, corrected_alpha

if TYPE_CHECKING:
    from variorum.spec.model import Model, Row


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One line of an arm's apparatus: place, before, after, and why."""

    place: str
    before: str
    after: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One thing that is compared.

    Attributes:
        name: short and unique in its study. title: how the report calls it.
        spec: the architecture, or None for a baseline that has none.
        apparatus: what changed from the arm before.
        seeded: False for a deterministic baseline, which is run once and paired with every seed.
    """

    name: str
    title: str
    spec: Model | None
    apparatus: tuple[Reading, ...] = ()
    note: str = ""
    seeded: bool = True


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What is measured. ``by_item`` metrics are means over items; the others need the jackknife.

    ``scale`` and ``digits`` say how a figure is shown: F1 as points of 100.
    """

    name: str
    unit: str
    lower_is_better: bool
    by_item: bool
    scale: float = 1.0
    digits: int = 3

    def shown(self, value: float, *, sign: bool = False) -> str:
        """A figure in the metric's unit, with a true minus."""
        return f"{value * self.scale:{'+' if sign else ''}.{self.digits}f}".replace("-", "−")


@dataclass(frozen=True, kw_only=True)
class Study:
    """A comparison with its claims, seeds and looks.

    Attributes:
        items: what one item is, in words, with the number of them.
        looks: seed counts at which it may be read; any other count is exploratory.
        curve_note: on which items the learning curves are taken, where it is not all of them.
        equal, unequal: what is held equal between arms, and what is not.
    """

    name: str
    title: str
    question: str
    arms: tuple[Arm, ...]
    claims: tuple[Claim, ...]
    metric: Metric
    seeds: tuple[int, ...]
    looks: tuple[int, ...]
    items: str
    equal: tuple[str, ...] = ()
    unequal: tuple[str, ...] = ()
    budget: str = ""
    curve_note: str = ""

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        if len(set(names)) != len(names):
            raise UsageError("two arms have the same name", where=f"study {self.name}")
        for claim in self.claims:
            for name in (claim.better, claim.worse):
                if name not in names:
                    raise UsageError(f"a claim names no arm: {name!r}", where=self.name, remedy=nearest(name, names))

    @property
    def alpha(self) -> float:
        """Level of each interval: 5 % shared by the study's claims and looks."""
        return corrected_alpha(claims=max(1, len(self.claims)), looks=len(self.looks))

    def arm(self, name: str) -> Arm:
        """The arm called ``name``."""
        return next(arm for arm in self.arms if arm.name == name)


def readings(rows: Sequence[Row]) -> tuple[Reading, ...]:
    """The apparatus of a spec diff, in words."""
    return tuple(
        Reading(
            place=row.path.removeprefix("architecture."),
            before=said(row.before, row.path),
            after=said(row.after, row.path),
            why=row.why,
        )
        for row in rows
    )


_NOTHING = {"architecture.init.std": "1/√fan-in"}
"""What None means at a path where it is not 'nothing'."""


def said(value: object, path: str = "") -> str:
    """A spec value as a reader would say it."""
    if value is None:
        return _NOTHING.get(path, "–")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = [
            f"{f.name} {said(getattr(value, f.name))}"
            for f in dataclasses.fields(value)
            if getattr(value, f.name) != f.default
        ]
        return f"{type(value).__name__}({', '.join(shown)})" if shown else type(value).__name__
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {said(one)}" for key, one in value.items()) or "–"
    if isinstance(value, tuple | list):
        return ", ".join(said(one) for one in value) or "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
