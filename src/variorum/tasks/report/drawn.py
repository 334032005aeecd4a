"""The report's page: figures first, then where the model is wrong, then how it was made. No script, no network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

from variorum import __version__
from variorum.page import charts, render
from variorum.tasks.examined import Mistake
from variorum.tasks.report.findings import Report, Scored

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
        baselines=[(name, _figure(one)) for name, figures in found.baselines.items() for one in figures],
        matrix=_matrix(found), pairs=_pairs(found), length=length(found), distance=distance(found),
        classes=[(c.name, f"{c.rows:,}", c.precision.said(), c.recall.said(), c.f1.said()) for c in found.by_class],
        curves=_curves(found), reliability=_reliability(found) if found.bins else None,
        slices=[(s.by, s.name, f"{s.rows:,}", s.mean.said()) for s in found.slices],
        mistakes=[("Wrong with the most confidence", found.confident), ("Furthest from the truth", found.worst)],
        cut=_cut, said=_said, colophon=f"variorum {__version__}.",
    )  # fmt: skip


def opening(found: Report) -> str:
    """The first sentence: what it reached on what, and against what."""
    main = found.figures[0]
    text = f"On {found.rows:,} rows the model's {main.name} is {main.items.said()}"
    others = [f"that of {name} {figures[0].items.said()}" for name, figures in found.baselines.items()]
    return f"{', '.join([text, *others])}."


def length(found: Report) -> str:
    """How many rows are longer than what is read at once, and what becomes of them."""
    if not found.longer:
        return f"Every row fits the {found.limit} tokens that are read at once."
    done = "are read in several windows" if found.windows else "were cut"
    longer = f"{found.longer:,} of {found.rows:,} rows are longer than the {found.limit} tokens that are read at once"
    return f"{longer}; they {done}."


def distance(found: Report) -> str:
    """How far what is said is from what is so; nothing where neither can be set against the other."""
    if not found.bins:
        return ""
    said, so = found.axes
    name = "Expected calibration error" if said == "confidence" else f"Mean distance of {said} from {so}"
    return f"{name} {found.error:.3f}."


def _figure(one: Scored) -> tuple[str, str, str, str]:
    each = " · ".join(f"{value:.3f}" for value in one.by_seed)
    return one.name, one.items.said(), "" if one.seeds is None else one.seeds.said(), each if one.seeds else ""


def _matrix(found: Report) -> list[list[tuple[int, int]]] | None:
    """Counts of the confusion matrix, each with its shade among those of its row."""
    if len(found.names) > MATRIX:
        return None
    return [[(count, round(SHADES * count / max(1, sum(row)))) for count in row] for row in found.confusion]


def _pairs(found: Report) -> list[tuple[str, str, str]]:
    """What is most often taken for what."""
    wrong = [
        (count, truth, answer)
        for i, truth in enumerate(found.names)
        for k, answer in enumerate(found.names)
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
    """What was so against what was said, with the interval of each bin."""
    said, so = found.axes
    ends = {min(one.said for one in found.bins), max(one.said for one in found.bins)}
    ends |= {1.0} if said == "confidence" else set()
    even = charts.Series(name="as said", tone=0, points=tuple((x, x, x, x) for x in sorted(ends)))
    model = charts.Series(name="model", tone=1, points=tuple((b.said, b.so, b.low, b.high) for b in found.bins))
    return _drawn([even, model], x_label=said, y_label=so, title="Calibration")


def _drawn(series: Sequence[charts.Series], **labels: Any) -> Markup:
    return charts.both(partial(_at, series=series, **labels))


def _at(width: int, *, series: Sequence[charts.Series], **labels: Any) -> Markup:
    return charts.curves(series, width=width, **labels)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


def _said(one: Mistake) -> str:
    """What was answered in the place of what."""
    sure = "" if one.confidence is None else f" with {one.confidence:.1%}"
    note = f"; {one.note}" if one.note else ""
    return f"{_cut(one.truth)}, answered {_cut(one.answer) or '(nothing)'}{sure}{note}"
