"""A finding in words and tables: the same sentences on the terminal, in the JSON result and in the report.

Every verdict line says 'at this budget'; no figure stands without its interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from variorum.study.analysis import Outcome
from variorum.study.costs import AXES, Costs
from variorum.study.design import Arm, Study
from variorum.study.statistics import MOST_SEEDS, Judgement

AT_BUDGET = "at this budget"
DECIDED = ("supported", "refuted")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One claim's row: everything already in words."""

    claim: str
    verdict: str
    gain: str
    interval: str
    remark: str

    @property
    def sentence(self) -> str:
        said = f"{AT_BUDGET}, “{self.claim}” is {self.verdict}: gain {self.gain}, interval {self.interval}"
        return f"{said}; {self.remark}" if self.remark else said


def line(study: Study, judgement: Judgement) -> Line:
    """A judgement in the metric's unit; a positive gain favours the claim."""
    shown = study.metric.shown
    return Line(
        claim=judgement.claim.name,
        verdict=judgement.verdict,
        gain=shown(judgement.gain, sign=True),
        interval=f"[{shown(judgement.low, sign=True)}, {shown(judgement.high, sign=True)}]",
        remark=remark(study, judgement),
    )


def remark(study: Study, judgement: Judgement) -> str:
    """What an open verdict would need; empty for a decided one."""
    if judgement.verdict in DECIDED:
        return ""
    if judgement.verdict == "exploratory":
        looks = " or ".join(map(str, study.looks))
        return f"no verdict: {judgement.seeds} seeds were read, {looks} declared"
    detect = f"{study.metric.shown(judgement.detectable)} {study.metric.unit} would be detected"
    if judgement.seeds_to_decide is None:
        return f"{detect}; even {MOST_SEEDS} seeds would hardly decide it"
    return f"{detect}; about {judgement.seeds_to_decide} seeds would probably decide it"


def number(count: int) -> str:
    """Small numbers as words."""
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def listing(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def either(counts: Sequence[int]) -> str:
    """``5``, ``5 or 8``, ``5, 8 or 12``."""
    return " or ".join((", ".join(map(str, counts[:-1])), str(counts[-1]))) if len(counts) > 1 else str(counts[0])


def opening(outcomes: Sequence[Outcome]) -> str:
    """The first sentence of the report: 'at this budget', then what is decided and how much is not."""
    found = [(outcome.study, judgement) for outcome in outcomes for judgement in outcome.judgements]
    decided = [effect(study, judgement) for study, judgement in found if judgement.verdict in DECIDED]
    open_ = len(found) - len(decided)
    if not found:
        return "At this budget no claim was judged."
    if not decided:
        return f"At this budget none of the {number(len(found))} claims is decided."
    count = f"{number(len(decided))} of {number(len(found))} claims {'is' if len(decided) == 1 else 'are'} decided"
    rest = f"; {number(open_)} {'remains' if open_ == 1 else 'remain'} undecided" if open_ else ""
    return f"At this budget {count}: {listing(decided)}{rest}."


def effect(study: Study, judgement: Judgement) -> str:
    """A decided claim as a statement about the world."""
    better, worse = study.arm(judgement.claim.better), study.arm(judgement.claim.worse)
    size = f"{study.metric.shown(abs(judgement.gain))} {study.metric.unit}"
    if study.metric.lower_is_better:
        name = better.title.removeprefix("+ ")
        return f"{name} {'lowers' if judgement.gain > 0 else 'raises'} the {study.metric.name} by {size}"
    first, second = (better, worse) if judgement.gain > 0 else (worse, better)
    return f"{_named(first)} beats {_named(second)} by {size}"


def _named(arm: Arm) -> str:
    return f"the {arm.title}" if arm.spec is None else arm.title


COSTS = ("p50 ms", "p95 ms", "texts/s", "memory MB", "disk MB", "MFLOP/text", "training s")


def costs(found: Costs) -> tuple[str, ...]:
    """An arm's costs under the headings of :data:`COSTS`."""
    flops = "–" if found.flops is None else f"{found.flops / 1e6:,.0f}"
    return (
        f"{found.latency * 1e3:.2f}", f"{found.latency_95 * 1e3:.2f}", f"{found.throughput:,.0f}",
        f"{found.memory / 1e6:,.0f}", f"{found.disk / 1e6:,.1f}", flops, f"{found.training:,.1f}",
    )  # fmt: skip


def fronts(outcome: Outcome, arm: str) -> str:
    """Against which costs an arm is on the front."""
    return ", ".join(axis.word for axis in AXES if arm in outcome.front(axis))


def _cost_table(outcome: Outcome) -> list[str]:
    """A line of costs for each arm, and whether no other is at least as good for at most its price."""
    study, measured = outcome.study, [(one, one.costs) for one in outcome.figures if one.costs is not None]
    if not measured:
        return []
    rows: list[tuple[str, ...]] = [("arm", *COSTS, "on the front")]
    rows += [(study.arm(one.arm).title, *costs(found), fronts(outcome, one.arm)) for one, found in measured]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["", *(
        "  " + "  ".join(
            cell.ljust(width) if place in (0, len(COSTS) + 1) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )]  # fmt: skip


def table(outcome: Outcome) -> list[str]:
    """The terminal's table of one study: arms, then claims with interval and verdict."""
    study = outcome.study
    width = max(len(arm.title) for arm in study.arms)
    lines = [study.title, f"  {study.budget}; {len(study.seeds)} seeds", ""]
    lines.append(f"  {'arm':{width}}  {study.metric.name} ({study.metric.unit}), mean and each seed")
    for figure in outcome.figures:
        each = "  ".join(study.metric.shown(value) for value in figure.by_seed.values())
        lines.append(f"  {study.arm(figure.arm).title:{width}}  {study.metric.shown(figure.mean)}   {each}")
    lines += [*_cost_table(outcome), ""]
    rows = [line(study, judgement) for judgement in outcome.judgements]
    claim = max((len(row.claim) for row in rows), default=0)
    gain = max((len(row.gain) for row in rows), default=0)
    interval = max((len(row.interval) for row in rows), default=0)
    if rows:
        lines.append(
            f"  paired gain in {study.metric.unit}, positive favours the claim; intervals at {1 - study.alpha:.2%}"
        )
    for row in rows:
        verdict = f"{row.verdict} {AT_BUDGET}"
        verdict += f": {row.remark}" if row.remark else ""
        lines.append(f"  {row.claim:{claim}}  {row.gain:>{gain}}  {row.interval:>{interval}}  {verdict}")
    lines += [f"  {claim.name}: not judged, too few cells finished" for claim in outcome.unjudged]
    lines += [f"  missing: {name}" for name in outcome.missing]
    return lines
