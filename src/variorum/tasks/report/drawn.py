"""The report's page: figures first, then where the model is wrong, then how it was made. No script, no network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

from variorum import __version__
from variorum.page import charts, render
from variorum.tasks.report.findings import Mistake, Report, Scored

LONGEST = 280
"""Letters of a text that are shown."""
MATRIX, PAIRS = 12, 15
"""Classes that a matrix has at most, and confusions that are listed where there are more."""
SHADES = 6


def page(found: Report) -> str:
    """The page as text."""
    return render(
        "variorum.tasks.report", "report.html.j2", title=found.title, opening=opening(found), report=found,
        figures=[_figure(one) for one in found.figures],
        baseline=None if found.baseline is None else (found.baseline[0], [_figure(one) for one in found.baseline[1]]),
        matrix=_matrix(found), pairs=_pairs(found),
        classes=[(c.name, f"{c.rows:,}", c.precision.said(), c.recall.said(), c.f1.said()) for c in found.by_class],
        curves=_curves(found), reliability=_reliability(found),
        slices=[(s.by, s.name, f"{s.rows:,}", s.accuracy.said()) for s in found.slices],
        mistakes=[("Wrong with the most confidence", found.confident), ("Truth held to be the least probable",
                  found.unlikely)], cut=_cut, share=_share, colophon=f"variorum {__version__}.",
    )  # fmt: skip


def opening(found: Report) -> str:
    """The first sentence: what it reached on what, and against what."""
    main = found.figures[0]
    text = f"On {found.rows:,} rows the model reaches a {main.name} of {main.items.said()}"
    if found.baseline is None:
        return f"{text}."
    name, figures = found.baseline
    return f"{text}; {name} reaches {figures[0].items.said()}."


def _figure(one: Scored) -> tuple[str, str, str, str]:
    each = " · ".join(f"{value:.3f}" for value in one.by_seed)
    return one.name, one.items.said(), "" if one.seeds is None else one.seeds.said(), each if one.seeds else ""


def _matrix(found: Report) -> list[list[tuple[int, int]]] | None:
    """Counts of the confusion matrix, each with its shade among those of its row."""
    if len(found.classes) > MATRIX:
        return None
    return [[(count, round(SHADES * count / max(1, sum(row)))) for count in row] for row in found.confusion]


def _pairs(found: Report) -> list[tuple[str, str, str]]:
    """What is most often taken for what."""
    wrong = [
        (count, truth, answer)
        for i, truth in enumerate(found.classes)
        for k, answer in enumerate(found.classes)
        if i != k and (count := found.confusion[i][k])
    ]
    return [(truth, answer, f"{count:,}") for count, truth, answer in sorted(wrong, reverse=True)[:PAIRS]]


def _curves(found: Report) -> list[Markup]:
    """Loss and judgement by epoch."""
    series = {
        "loss": [(epoch, loss) for epoch, loss, _ in found.epochs],
        "held out": [(epoch, score) for epoch, _, score in found.epochs if score is not None],
    }
    return [_line(name, points) for name, points in series.items() if len(points) > 1]


def _line(name: str, points: Sequence[tuple[int, float]]) -> Markup:
    tone = 1 if name == "loss" else 4
    series = [charts.Series(name=name, tone=tone, points=tuple((float(x), y, y, y) for x, y in points))]
    return _drawn(series, x_label="epoch", y_label=name, title=f"{name} by epoch")


def _reliability(found: Report) -> Markup:
    """How often answers are right against how sure they are, with Wilson's intervals."""
    ends = min(one.confidence for one in found.bins), max(one.confidence for one in found.bins)
    even = charts.Series(name="as sure as right", tone=0, points=tuple((x, x, x, x) for x in sorted({*ends, 1.0})))
    model = charts.Series(
        name="model", tone=1,
        points=tuple((one.confidence, one.right, *_wilson(one.right, one.rows)) for one in found.bins),
    )  # fmt: skip
    return _drawn([even, model], x_label="confidence", y_label="share right", title="Calibration")


def _drawn(series: Sequence[charts.Series], **labels: Any) -> Markup:
    return charts.both(partial(_at, series=series, **labels))


def _at(width: int, *, series: Sequence[charts.Series], **labels: Any) -> Markup:
    return charts.curves(series, width=width, **labels)


def _wilson(share: float, rows: int, z: float = 1.96) -> tuple[float, float]:
    middle = (share + z * z / (2 * rows)) / (1 + z * z / rows)
    half = z / (1 + z * z / rows) * (share * (1 - share) / rows + z * z / (4 * rows * rows)) ** 0.5
    return middle - half, middle + half


def _cut(one: Mistake) -> str:
    return one.text if len(one.text) <= LONGEST else one.text[:LONGEST] + " …"


def _share(value: float) -> str:
    return f"{value:.1%}"
