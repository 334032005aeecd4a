"""What a benchmark hands back, and what is wanted of it: figures of ours, a table of every side, and the goals."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from variorum.cli.output import plain

GOALS = Path(__file__).parents[1] / "goals.toml"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """One job, measured.

    Args:
        name: its table in ``goals.toml``.
        figures: what the goals are about, by the names they use; a figure that could not be taken is left out.
        sides: a row for every engine that took part, or should have.
        facts: what the figures depend on: lengths, padding, rates of the machine in the same run.
        faults: answers of ours that are wrong, or failures of ours; the run fails on any.
    """

    name: str
    figures: Mapping[str, float]
    sides: Sequence[Mapping[str, object]] = ()
    facts: Mapping[str, object] = dataclasses.field(default_factory=dict)
    faults: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Found:
    """What a benchmark found, and ``about`` which machine it was, when, and with which versions."""

    about: Mapping[str, object]
    jobs: Sequence[Job]

    def keep(self, file: Path) -> None:
        """Write it down, in place of what was found before."""
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"about": self.about, "jobs": plain(self.jobs)}, indent=1) + "\n", "utf-8")

    @classmethod
    def kept(cls, file: Path) -> Found:
        """What :meth:`keep` wrote."""
        told = json.loads(file.read_bytes())
        return cls(told["about"], [Job(**job) for job in told["jobs"]])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goal:
    """What is wanted of one figure of a job.

    Args:
        job: in words.
        figure: its name among the job's figures.
        bound: the value it should reach, or stay within.
        at_most: whether less is better.
        held_back: what keeps ours from it, where it is missed.
    """

    job: str
    figure: str
    bound: float
    at_most: bool
    held_back: str

    def met(self, value: float | None) -> bool | None:
        """Whether ``value`` reaches it; ``None`` where nothing was measured."""
        if value is None:
            return None
        return value <= self.bound if self.at_most else value >= self.bound


def goals(name: str, file: Path = GOALS) -> list[Goal]:
    """What is wanted of the job ``name``, in the order of the file.

    Raises:
        KeyError: the file has no such job, so nobody has said what is wanted of it.
    """
    told = tomllib.loads(file.read_text("utf-8"))[name]
    kinds = (("at_least", False), ("at_most", True))
    return [
        Goal(job=told["job"], figure=figure, bound=bound, at_most=at_most, held_back=told.get("held_back", ""))
        for kind, at_most in kinds
        for figure, bound in told.get(kind, {}).items()
    ]


def judged(job: Job, file: Path = GOALS) -> list[dict[str, object]]:
    """A row for every goal of a job: what was found, what is wanted, and whether it is met."""
    rows: list[dict[str, object]] = []
    for goal in goals(job.name, file):
        value = job.figures.get(goal.figure)
        met = goal.met(value)
        rows.append({
            "job": goal.job, "figure": goal.figure, "found": value,
            "goal": f"{'≤' if goal.at_most else '≥'} {goal.bound:g}",
            "met": "fault" if job.faults else {True: "yes", False: "no", None: "not measured"}[met],
            "held_back": goal.held_back if met is False else "",
        })  # fmt: skip
    return rows
