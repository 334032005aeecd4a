"""What a finding's report draws: intervals of claims, learning curves, and quality against each cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

from variorum.page import charts
from variorum.study.analysis import Outcome
from variorum.study.costs import AXES, Axis
from variorum.study.design import Arm, Study


def forest(outcome: Outcome) -> object:
    study, scale = outcome.study, outcome.study.metric.scale
    if not outcome.judgements:
        return ""
    intervals = [
        charts.Interval(
            name=j.claim.name,
            verdict=j.verdict,
            gain=j.gain * scale,
            low=j.low * scale,
            high=j.high * scale,
            by_seed=tuple(v * scale for v in j.by_seed),
        )
        for j in outcome.judgements
    ]
    return charts.both(
        lambda width: charts.forest(
            intervals,
            width=width,
            margin=0.0,
            x_label=f"gain, {study.metric.unit}",
            show=lambda value: f"{value:+.{study.metric.digits}f}",
            title=f"Intervals of the claims of “{study.title}”",
        )
    )


def _tones(study: Study) -> dict[str, int]:
    return {arm.name: i % 6 for i, arm in enumerate(study.arms)}


def curves(outcome: Outcome) -> list[dict[str, object]]:
    study, metric = outcome.study, outcome.study.metric
    first = study.arms[0]
    scored = [_series(outcome, arm) for arm in study.arms if arm.seeded]
    drawn = [series for series in scored if series is not None]
    if not drawn:
        return []
    label = f"{metric.name}, {metric.unit}"
    figures: list[dict[str, object]] = [
        {
            "drawing": charts.both(
                partial(_drawn, series=drawn, x_label="steps", y_label=label, title=f"Learning curves: {label}")
            ),
            "caption": f"The {metric.name} as training goes on{study.curve_note}: mean of the seeds, and their range.",
        }
    ]
    if metric.by_item and first.seeded:
        gains = [_series(outcome, arm, against=first.name) for arm in study.arms[1:]]
        shown = [series for series in gains if series is not None]
        label = f"gain over {first.title}, {metric.unit}"
        if not shown:
            return figures
        figures.append(
            {
                "drawing": charts.both(
                    partial(
                        _drawn,
                        series=shown,
                        x_label="steps",
                        y_label=label,
                        title=f"Gain over {first.title}",
                        zero=True,
                    )
                ),
                "caption": f"The same runs as a paired gain over {first.title} at the same step and seed.",
            }
        )
    return figures


def _drawn(width: int, *, series: Sequence[charts.Series], **labels: Any) -> Markup:
    return charts.curves(series, width=width, **labels)


def _series(outcome: Outcome, arm: Arm, against: str | None = None) -> charts.Series | None:
    """An arm's curve over seeds; ``against`` another arm, the paired gain."""
    metric = outcome.study.metric
    seeds = [
        s
        for s in outcome.study.seeds
        if (arm.name, s) in outcome.results and (against is None or (against, s) in outcome.results)
    ]
    if not seeds:
        return None
    points = []
    for i, (step, _) in enumerate(outcome.results[arm.name, seeds[0]].curve):
        values = [outcome.results[arm.name, seed].curve[i][1] for seed in seeds]
        if against is not None:
            sign = 1 if metric.lower_is_better else -1
            values = [sign * (outcome.results[against, s].curve[i][1] - v) for s, v in zip(seeds, values, strict=True)]
        values = [v * metric.scale for v in values]
        points.append((float(step), sum(values) / len(values), min(values), max(values)))
    if not points:
        return None
    return charts.Series(name=arm.title, tone=_tones(outcome.study)[arm.name], points=tuple(points))


def seconds(outcome: Outcome, arm: str) -> float:
    """Training seconds of a cell of this arm, mean over seeds."""
    found = [float(r.facts["train_seconds"]) for (name, _), r in outcome.results.items() if name == arm]
    return sum(found) / len(found)


def fronts(outcome: Outcome) -> list[dict[str, object]]:
    """Quality against each cost of an answer that was measured, and against training."""
    corner = f"Towards the {'lower' if outcome.study.metric.lower_is_better else 'upper'} left is better and cheaper."
    found: list[dict[str, object]] = [
        {
            "drawing": _front(outcome, axis),
            "caption": f"{corner} Ringed: no other arm is at least as good for at most its {axis.word}. "
            "Whiskers are the range over seeds; costs are this machine's, on one thread.",
        }
        for axis in AXES
        if outcome.front(axis)
    ]
    if outcome.figures:
        caption = f"{corner} Whiskers are the range over seeds; seconds are this machine's."
        found.append({"drawing": _front(outcome, None), "caption": caption})
    return found


def _front(outcome: Outcome, axis: Axis | None) -> Markup:
    """Quality against a cost of an answer, or against training."""
    study, metric, tones = outcome.study, outcome.study.metric, _tones(outcome.study)
    ringed = outcome.front(axis) if axis else ()
    priced = [(one, axis.of(one.costs) if one.costs else None) if axis else (one, seconds(outcome, one.arm))
              for one in outcome.figures]  # fmt: skip
    points = [
        charts.Point(
            name=study.arm(one.arm).title, tone=tones[one.arm], x=price, y=one.mean * metric.scale,
            low=min(one.by_seed.values()) * metric.scale, high=max(one.by_seed.values()) * metric.scale,
            ringed=one.arm in ringed,
        )
        for one, price in priced if price is not None
    ]  # fmt: skip
    labels = {
        "x_label": axis.unit if axis else "training seconds of one cell, one thread",
        "y_label": f"{metric.name}, {metric.unit}", "title": f"Quality and {axis.word if axis else 'training'}",
    }  # fmt: skip
    return charts.both(lambda width: charts.front(points, width=width, **labels))
