"""From cell results to figures per arm and a judgement per claim.

Only seeds that both arms of a claim finished are paired. With fewer seeds than the plan declared there is an
interval, marked exploratory, and no verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from variorum.study.cells import CellResult
from variorum.study.costs import Axis, Costs, costs_of, front
from variorum.study.design import Study
from variorum.study.judging import Judge
from variorum.study.statistics import Claim, Judgement, judge
from variorum.tasks.metrics.paired import Components, crossed, jackknifed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Results = Mapping[tuple[str, int], CellResult]
"""(arm, seed) to result, of one study."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What a metric that does not split by item needs beside answers.

    Attributes:
        labels: what is right for each item. groups: jackknife group of each item, from 0. judge: compares.
    """

    labels: Sequence[Any]
    groups: Sequence[int]
    judge: Judge

    def whole(self, answers: Sequence[Any]) -> float:
        """The metric on all items."""
        import numpy as np

        return float(self.judge.figure(answers, self.labels)(np.ones((1, len(self.labels)), dtype=np.int64))[0])

    def without_each(self, answers: Sequence[Any]) -> NDArray[np.float64]:
        """The metric with each group of items left out in turn, [groups]."""
        import numpy as np

        kept = np.asarray(self.groups) != np.arange(max(self.groups) + 1)[:, None]
        return self.judge.figure(answers, self.labels)(kept.astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One arm's score: mean over seeds, each seed, and class by class where there are classes; and its costs."""

    arm: str
    mean: float
    by_seed: Mapping[int, float]
    by_class: Mapping[str, float] = field(default_factory=dict)
    costs: Costs | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A study after its run. ``missing`` names the cells that did not finish."""

    study: Study
    figures: tuple[Figure, ...]
    judgements: tuple[Judgement, ...]
    unjudged: tuple[Claim, ...]
    results: Results
    missing: tuple[str, ...]
    truth: Truth | None = None

    def front(self, axis: Axis) -> tuple[str, ...]:
        """The names of the arms that no other beats in both the metric and this cost; none where it was not taken."""
        sign = -1 if self.study.metric.lower_is_better else 1
        return front({one.arm: (sign * one.mean, axis.of(one.costs)) for one in self.figures if one.costs})


def analyse(study: Study, results: Results, truth: Truth | None) -> Outcome:
    """Figures and judgements of one study from the cells that finished."""
    judgements, unjudged = [], []
    for claim in study.claims:
        judgement = _judged(study, claim, results, truth)
        if judgement is None:
            unjudged.append(claim)
        else:
            judgements.append(judgement)
    return Outcome(
        study=study,
        figures=tuple(
            _figure(study, arm.name, results, truth) for arm in study.arms if _seeds(study, arm.name, results)
        ),
        judgements=tuple(judgements),
        unjudged=tuple(unjudged),
        results=results,
        missing=tuple(
            f"{arm.title}, seed {seed}"
            for arm in study.arms
            for seed in (study.seeds if arm.seeded else study.seeds[:1])
            if (arm.name, seed) not in results
        ),
        truth=truth,
    )


def _seeds(study: Study, arm: str, results: Results) -> list[int]:
    """Seeds this arm can be paired at; a baseline without seeds pairs with all of them."""
    if not study.arm(arm).seeded:
        return list(study.seeds) if (arm, study.seeds[0]) in results else []
    return [seed for seed in study.seeds if (arm, seed) in results]


def _result(study: Study, arm: str, seed: int, results: Results) -> CellResult:
    return results[arm, seed if study.arm(arm).seeded else study.seeds[0]]


def _judged(study: Study, claim: Claim, results: Results, truth: Truth | None) -> Judgement | None:
    seeds = sorted(set(_seeds(study, claim.better, results)) & set(_seeds(study, claim.worse, results)))
    if len(seeds) < 2:
        return None
    better = [_result(study, claim.better, seed, results) for seed in seeds]
    worse = [_result(study, claim.worse, seed, results) for seed in seeds]
    parts, by_seed = (_crossed if study.metric.by_item else _jackknifed)(study, better, worse, truth)
    return judge(claim, parts, alpha=study.alpha, looks=study.looks, by_seed=by_seed)


def _crossed(
    study: Study, better: Sequence[CellResult], worse: Sequence[CellResult], truth: Truth | None
) -> tuple[Components, list[float]]:
    import numpy as np

    gain = np.array([b.items for b in better]) - np.array([w.items for w in worse])
    gain = -gain if study.metric.lower_is_better else gain
    return crossed(gain), [float(x) for x in gain.mean(1)]


def _jackknifed(
    study: Study, better: Sequence[CellResult], worse: Sequence[CellResult], truth: Truth | None
) -> tuple[Components, list[float]]:
    import numpy as np

    if truth is None:
        raise ValueError(f"{study.metric.name} needs the true labels")
    whole = [truth.whole(b.items) - truth.whole(w.items) for b, w in zip(better, worse, strict=True)]
    left = [truth.without_each(b.items) - truth.without_each(w.items) for b, w in zip(better, worse, strict=True)]
    return jackknifed(whole, np.mean(left, axis=0).tolist()), whole


def _figure(study: Study, arm: str, results: Results, truth: Truth | None) -> Figure:
    import numpy as np

    seeds = _seeds(study, arm, results) if study.arm(arm).seeded else [study.seeds[0]]
    mine = [results[arm, seed] for seed in seeds]
    scores = [sum(one.items) / len(one.items) if truth is None else truth.whole(one.items) for one in mine]
    parts = [] if truth is None else [truth.judge.parts(one.items, truth.labels) for one in mine]
    costs = (costs_of(one) for one in mine)
    return Figure(
        arm=arm, mean=sum(scores) / len(scores), by_seed=dict(zip(seeds, scores, strict=True)),
        by_class={name: float(np.mean([one[name] for one in parts])) for name in (parts[0] if parts else ())},
        costs=next((one for one in costs if one is not None), None),
    )  # fmt: skip
