"""From cell results to figures per arm and a judgement per claim.

Only seeds that both arms of a claim finished are paired. With fewer seeds than the plan declared there is an
interval, marked exploratory, and no verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variorum.study.cells import CellResult
from variorum.study.design import Study
from variorum.study.statistics import Claim, Judgement, judge
from variorum.tasks.metrics.classes import confusion_by_group, leave_one_group_out, macro_f1, per_class_f1
from variorum.tasks.metrics.paired import Components, crossed, jackknifed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Results = Mapping[tuple[str, int], CellResult]
"""(arm, seed) to result, of one study."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What a metric that does not split by item needs beside predictions.

    Attributes:
        labels: true class ids, [items]. groups: jackknife group of each item. classes: their names.
    """

    labels: Sequence[int]
    groups: Sequence[int]
    classes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One arm's score: mean over seeds, each seed, and class by class where there are classes."""

    arm: str
    mean: float
    by_seed: Mapping[int, float]
    by_class: tuple[float, ...] = ()


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
    whole, left = [], []
    for b, w in zip(better, worse, strict=True):
        counts_b, counts_w = _counts(b, truth), _counts(w, truth)
        whole.append(float(macro_f1(counts_b.sum(0)) - macro_f1(counts_w.sum(0))))
        left.append(leave_one_group_out(counts_b) - leave_one_group_out(counts_w))
    return jackknifed(whole, np.mean(left, axis=0).tolist()), whole


def _counts(result: CellResult, truth: Truth) -> NDArray[np.int64]:
    return confusion_by_group(truth.labels, [int(x) for x in result.items], truth.groups, len(truth.classes))


def _figure(study: Study, arm: str, results: Results, truth: Truth | None) -> Figure:
    import numpy as np

    by_seed: dict[int, float] = {}
    by_class: list[NDArray[np.float64]] = []
    for seed in _seeds(study, arm, results) if study.arm(arm).seeded else [study.seeds[0]]:
        result = results[arm, seed]
        if truth is None:
            by_seed[seed] = sum(result.items) / len(result.items)
        else:
            counts = _counts(result, truth).sum(0)
            by_seed[seed] = float(macro_f1(counts))
            by_class.append(per_class_f1(counts))
    return Figure(
        arm=arm,
        mean=sum(by_seed.values()) / len(by_seed),
        by_seed=by_seed,
        by_class=tuple(np.mean(by_class, axis=0).tolist()) if by_class else (),
    )
