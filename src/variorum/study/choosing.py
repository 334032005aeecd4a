"""Which model for these rows, under these ceilings: rules say which to try, a bake-off says which to take.

The best arm that keeps below the ceilings is taken. Whether it is better than the next one, and whether what it costs
more is worth it, is said as the bake-off's intervals have it: what is undecided is called so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from variorum.errors import NotFound, UsageError, VariorumError
from variorum.family.choice import Constraint, Rule, choose
from variorum.study import needs, ways, words
from variorum.study.analysis import Figure, Outcome
from variorum.study.costs import AXES, LATENCY, MEMORY, Axis, Costs
from variorum.study.labelled import Rows
from variorum.study.session import Finding
from variorum.study.statistics import Judgement
from variorum.study.ways import NAMED

_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_SIZES = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
TRIED_ANYWAY = "nano"
"""What can be made from nothing and so is always at hand."""


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """The most that one text may take in 95 cases of 100, in seconds, and a process that answers, in bytes."""

    latency: float | None = None
    memory: float | None = None

    @property
    def given(self) -> bool:
        """Whether there is one."""
        return self != Ceilings()

    def of(self, axis: Axis) -> float | None:
        """That of a cost, in its unit."""
        found = {LATENCY: self.latency, MEMORY: self.memory}[axis]
        return None if found is None else found / axis.size

    def broken(self, costs: Costs) -> list[str]:
        """What is above its ceiling, in words."""
        return [
            f"{axis.of(costs):,.1f} {axis.short} where {most:,.1f} are allowed"
            for axis in AXES
            if (most := self.of(axis)) is not None and axis.of(costs) > most
        ]


def ceilings(latency: str, memory: str) -> Ceilings:
    """``20ms`` and ``500MB`` as numbers; empty for none.

    Raises:
        UsageError: one is no quantity of its kind.
    """
    return Ceilings(latency=_quantity(latency, _TIMES, "--latency", "20ms"),
                    memory=_quantity(memory, _SIZES, "--memory", "500MB"))  # fmt: skip


def _quantity(text: str, units: dict[str, float], where: str, example: str) -> float | None:
    if not text:
        return None
    told = _QUANTITY.fullmatch(text.strip())
    if told is None or told[2].lower() not in units or not float(told[1]) > 0:
        raise UsageError(f"{text!r} says nothing here", where=where, remedy=f"write {example}")
    return float(told[1]) * units[told[2].lower()]


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """What is tried, and what rules name besides: each with the reason that it is not tried."""

    asks: tuple[needs.Asks, ...]
    rules: tuple[Rule, ...]
    models: tuple[str, ...]
    left: tuple[str, ...]

    def told(self) -> list[str]:
        """In words, a line each."""
        lines = [f"{one.constraint}: {one.because}" for one in self.asks]
        lines += [f"{rule.model}, else {rule.instead} ({rule.id}): {rule.because}" for rule in self.rules]
        lines += [f"tried: {', '.join(self.models)}", *(f"not tried: {line}" for line in self.left)]
        return lines


def candidates(rows: Rows, limits: Ceilings, models: Sequence[str] = ()) -> Candidates:
    """Those named; else those that the rules name for these rows and that are at hand, and one made from nothing."""
    asked = needs.asks(rows)
    scarce: dict[Constraint, float | None] = {"latency": limits.latency, "size": limits.memory}
    wanted = [*(one.constraint for one in asked), *(name for name, most in scarce.items() if most is not None)]
    rules = choose(needs.need_of(rows.kind), wanted)
    tried, left = list(models), list[str]()
    if not models:
        named = dict.fromkeys(name for rule in rules for name in (rule.model, rule.instead))
        for name in named:
            try:
                tried.append(_fitting(name, rows, limits))
            except VariorumError as error:
                left.append(f"{name}: {error.what}")
        tried.append(TRIED_ANYWAY)
    return Candidates(asks=tuple(asked), rules=tuple(rules), models=tuple(tried), left=tuple(left))


def _fitting(name: str, rows: Rows, limits: Ceilings) -> str:
    """How a model enters: a writer is asked, an encoder fine-tuned.

    Raises:
        NotFound: it is not at hand. UsageError: it cannot do the task, or its weights alone are above the ceiling.
    """
    from variorum.spec.size import size

    spec = ways.spec_of(name)
    if limits.memory is not None and size(spec, dtype="float32").weight_bytes > limits.memory:
        raise UsageError("its weights alone are above the ceiling of memory")
    if spec.architecture.decoder is None:
        return name
    if rows.kind not in NAMED:
        raise UsageError(f"it writes, and {rows.kind} asks for no names")
    return f"prompt:{name}"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is recommended, by the names of arms, and why; nothing where no arm keeps below the ceilings."""

    take: str | None
    runner_up: str | None
    above: dict[str, list[str]]
    sentences: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return vars(self)


def recommend(outcome: Outcome, limits: Ceilings) -> Choice:
    """The best arm below the ceilings, the next one, and what the intervals say of the two.

    Raises:
        NotFound: no arm's costs were measured.
    """
    found = [(one, one.costs) for one in outcome.figures if one.costs is not None]
    if not found:
        raise NotFound("no arm finished with its costs", where="choose", remedy="see the cells that failed")
    above = {one.arm: limits.broken(costs) for one, costs in found}
    inside = [(one, costs) for one, costs in found if not above[one.arm]]
    sign = 1 if outcome.study.metric.lower_is_better else -1
    inside.sort(key=lambda pair: (sign * pair[0].mean, LATENCY.of(pair[1])))
    study, metric = outcome.study, outcome.study.metric
    outside = [f"{study.arm(arm).title} is left out: {' and '.join(why)}." for arm, why in above.items() if why]
    if not inside:
        return Choice(take=None, runner_up=None, above=above,
                      sentences=("Nothing keeps below the ceilings.", *outside))  # fmt: skip
    best, costs = inside[0]
    said = [
        f"Take {study.arm(best.arm).title}: {metric.name} {metric.shown(best.mean)}, "
        + " and ".join(f"{axis.of(costs):,.1f} {axis.short}" for axis in AXES)
        + (", below the ceilings." if limits.given else ".")
    ]
    if len(inside) > 1:
        said += _against(outcome, best, inside[1][0])
        said += _cheaper(outcome, best, [one for one, _ in inside[1:]])
    return Choice(take=best.arm, runner_up=inside[1][0].arm if len(inside) > 1 else None, above=above,
                  sentences=(*said, *outside))  # fmt: skip


def advised(finding: Finding, choice: Choice) -> Finding:
    """A finding whose page begins with what is recommended."""
    declared, page = finding.declared, finding.declared.page
    lead = " ".join((*choice.sentences, page.lead))
    return replace(finding, declared=replace(declared, page=replace(page, lead=lead)))


def _against(outcome: Outcome, best: Figure, next_: Figure) -> list[str]:
    metric = outcome.study.metric
    other, mean = outcome.study.arm(next_.arm).title, metric.shown(next_.mean)
    found = _between(outcome, best.arm, next_.arm)
    if found is None:
        return [f"The runner-up is {other} with {mean}; no interval compares the two."]
    gain, open_ = _sides(found, best.arm, metric.shown), words.remark(outcome.study, found)
    if found.verdict in words.DECIDED:
        return [f"The runner-up is {other} with {mean}: that it is worse is decided at this budget, by {gain}."]
    return [f"The runner-up is {other} with {mean}: which of the two is better is not decided at this budget, "
            f"{gain}; {open_}."]  # fmt: skip


def _cheaper(outcome: Outcome, best: Figure, others: Sequence[Figure]) -> list[str]:
    """An arm that is not shown to be worse and takes half the time or less."""
    for one in sorted(others, key=lambda one: LATENCY.of(_costs(one))):
        found, times = _between(outcome, best.arm, one.arm), LATENCY.of(_costs(best)) / LATENCY.of(_costs(one))
        if times >= 2 and found is not None and found.verdict not in words.DECIDED:
            return [f"{outcome.study.arm(one.arm).title} answers {times:.1f} times as fast, and is not shown to be "
                    "worse: take it where time is what is scarce."]  # fmt: skip
    return []


def _costs(figure: Figure) -> Costs:
    assert figure.costs is not None, "only arms with costs are compared"
    return figure.costs


def _between(outcome: Outcome, a: str, b: str) -> Judgement | None:
    return next((one for one in outcome.judgements if {one.claim.better, one.claim.worse} == {a, b}), None)


def _sides(found: Judgement, better: str, shown: Any) -> str:
    """The gain of ``better`` with its interval."""
    turned = found.claim.better != better
    gain, low, high = (-found.gain, -found.high, -found.low) if turned else (found.gain, found.low, found.high)
    return f"{shown(gain, sign=True)} [{shown(low, sign=True)}, {shown(high, sign=True)}]"
