"""Claims as they are written before a study runs, arms by names or titles: "A beats B", or "A beats B by 0.02"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from variorum.errors import UsageError, nearest
from variorum.study.design import Arm, Metric
from variorum.study.statistics import Claim


def claims_of(written: Sequence[str], arms: Sequence[Arm], metric: Metric) -> tuple[Claim, ...]:
    """What was written.

    Raises:
        UsageError: it claims nothing, or about no arm.
    """
    names = {arm.title: arm.name for arm in arms} | {arm.name: arm.name for arm in arms}
    return tuple(_read(text, names, metric) for text in written)


def each_beats(pairs: Iterable[tuple[Arm, Arm]], metric: Metric) -> tuple[Claim, ...]:
    """The usual claims: the first of each pair beats the second."""
    return tuple(
        Claim(name=f"{a.title} beats {b.title}", better=a.name, worse=b.name, metric=metric.name) for a, b in pairs
    )


def _read(text: str, names: Mapping[str, str], metric: Metric) -> Claim:
    better, beats, rest = text.partition(" beats ")
    worse, by, margin = rest.partition(" by ")
    if not beats:
        raise UsageError(f"{text!r} claims nothing", where="--claim", remedy='write "A beats B by 0.02"')
    for name in (better.strip(), worse.strip()):
        if name not in names:
            remedy = nearest(name, names) or f"one of {', '.join(names)}"
            raise UsageError(f"a claim names no arm: {name!r}", where="--claim", remedy=remedy)
    try:
        least = float(margin) if by else 0.0
    except ValueError:
        raise UsageError(f"{margin!r} is no number", where=f"claim {text!r}") from None
    return Claim(
        name=text, better=names[better.strip()], worse=names[worse.strip()], metric=metric.name, margin=least
    )  # fmt: skip
