"""The report's drawings as inline SVG: learning curves, gains, the quality/cost picture, intervals.

Colours and fonts are classes of the page, so a drawing follows its light or dark. Each is drawn twice, for a
wide and a narrow page, at the size it is shown, so that its letters are never scaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

LETTER = 8.0
"""Width of one bold letter at the drawings' font size, in the widest of the fonts; keeps labels inside."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One arm's line: points (x, mean, low, high); ``tone`` picks its colour class."""

    name: str
    tone: int
    points: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One arm in the quality/cost picture; ``low`` and ``high`` are the range over seeds, a ring marks the front."""

    name: str
    tone: int
    x: float
    y: float
    low: float
    high: float
    ringed: bool = False


@dataclass(frozen=True, kw_only=True)
class Interval:
    """One claim's interval and the gain of each seed."""

    name: str
    verdict: str
    gain: float
    low: float
    high: float
    by_seed: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A plot's box, and where values fall in it."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.height - self.bottom - (value - low) / (high - low) * (self.height - self.top - self.bottom)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round values inside [low, high], at most ``most`` of them."""
    span = high - low
    for exponent in range(-12, 13):
        for digit in (1, 2, 5):
            step = digit * 10.0**exponent
            first = math.ceil(low / step - 1e-9)
            last = math.floor(high / step + 1e-9)
            if span / step <= most and last - first + 1 <= most:
                return [i * step for i in range(first, last + 1)]
    return []


def padded(values: Sequence[float], share: float = 0.06) -> tuple[float, float]:
    """The range of ``values`` with some air; never empty."""
    low, high = min(values), max(values)
    air = (high - low) * share or abs(high) * share or 1.0
    return low - air, high + air


def short(value: float) -> str:
    """A tick's label."""
    if abs(value) >= 1000:
        return f"{value / 1000:g}k"
    return f"{value:.6g}".replace("-", "−")


def curves(
    series: Sequence[Series], *, width: int, x_label: str, y_label: str, title: str, zero: bool = False
) -> Markup:
    """Lines with the range over seeds behind them, each named at its end."""
    room = int(max(len(one.name) for one in series) * LETTER) + 14
    values = [v for one in series for point in one.points for v in point[1:]] + ([0.0] if zero else [])
    last = max(point[0] for one in series for point in one.points)
    first = min(point[0] for one in series for point in one.points)
    frame = Frame(
        width=width, height=300 if width > 500 else 260, left=46, right=room, top=26, bottom=40,
        x_range=(min(first, 0.0) if not zero else first, last), y_range=padded(values),
    )  # fmt: skip
    body = [_axes(frame, x_label, y_label)]
    if zero:
        body.append(_line("zero", frame.left, frame.y(0), frame.width - frame.right, frame.y(0)))
    for one in series:
        upper = [(frame.x(x), frame.y(high)) for x, _, _, high in one.points]
        lower = [(frame.x(x), frame.y(low)) for x, _, low, _ in reversed(one.points)]
        body.append(Markup('<polygon class="band t{}" points="{}"/>').format(one.tone, _path([*upper, *lower])))
    for one in series:
        middle = [(frame.x(x), frame.y(mean)) for x, mean, _, _ in one.points]
        body.append(Markup('<polyline class="curve t{}" points="{}"/>').format(one.tone, _path(middle)))
    ends = apart([frame.y(one.points[-1][1]) for one in series], 14, (frame.top, frame.height - frame.bottom))
    for one, y in zip(series, ends, strict=True):
        x = frame.x(one.points[-1][0])
        body.append(_text(one.name, x + 8, y + 4, f"name t{one.tone}"))
    return _svg(frame.width, frame.height, title, body)


def front(points: Sequence[Point], *, width: int, x_label: str, y_label: str, title: str) -> Markup:
    """Quality against cost, with the range over seeds; the better corner is named."""
    values = [v for point in points for v in (point.low, point.high)]
    frame = Frame(
        width=width, height=280 if width > 500 else 260, left=46, right=16, top=26, bottom=40,
        x_range=padded([point.x for point in points], 0.16), y_range=padded(values, 0.12),
    )  # fmt: skip
    body = [_axes(frame, x_label, y_label)]
    heights = apart([frame.y(point.y) for point in points], 14, (frame.top, frame.height - frame.bottom))
    for point, label in zip(points, heights, strict=True):
        x, y = frame.x(point.x), frame.y(point.y)
        body.append(_line(f"whisker t{point.tone}", x, frame.y(point.low), x, frame.y(point.high)))
        body.append(Markup('<circle class="dot t{}" cx="{:.1f}" cy="{:.1f}" r="4.5"/>').format(point.tone, x, y))
        if point.ringed:
            body.append(Markup('<circle class="ring t{}" cx="{:.1f}" cy="{:.1f}" r="8"/>').format(point.tone, x, y))
        gap = 12 if point.ringed else 9
        fits = x + gap + 1 + len(point.name) * LETTER < frame.width
        words = f"name t{point.tone}{'' if fits else ' end'}"
        body.append(_text(point.name, x + (gap if fits else -gap), label + 4, words))
    return _svg(frame.width, frame.height, title, body)


def forest(
    intervals: Sequence[Interval], *, width: int, margin: float, x_label: str, show: Callable[[float], str], title: str
) -> Markup:
    """The intervals that gave the verdicts, a tick per seed, and the line that they must clear."""
    roomy = width > 500
    row, top = (58, 10) if roomy else (76, 6)
    height = top + row * len(intervals) + 40
    values = [v for one in intervals for v in (one.low, one.high, *one.by_seed)] + [margin]
    frame = Frame(
        width=width, height=height, left=10, right=10, top=top, bottom=40, x_range=padded(values, 0.04), y_range=(0, 1)
    )
    body = [_x_axis(frame, x_label)]
    body.append(_line("zero", frame.x(margin), top, frame.x(margin), height - frame.bottom))
    for i, one in enumerate(intervals):
        y = top + row * (i + 1) - 24
        if roomy:
            body.append(_text(one.name, frame.left, y - 16, "claim"))
            body.append(_text(one.verdict, width - frame.right, y - 16, f"name end {one.verdict}"))
        else:
            body.append(_text(one.name, frame.left, y - 33, "claim"))
            body.append(_text(one.verdict, frame.left, y - 16, f"name {one.verdict}"))
        body.append(_line(f"interval {one.verdict}", frame.x(one.low), y, frame.x(one.high), y))
        for end in (one.low, one.high):
            body.append(_line(f"interval {one.verdict}", frame.x(end), y - 5, frame.x(end), y + 5))
        body += [_line("seed", frame.x(v), y - 4, frame.x(v), y + 4) for v in one.by_seed]
        body.append(
            Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="4.5"><title>{}</title></circle>').format(
                one.verdict, frame.x(one.gain), y, show(one.gain)
            )
        )
    return _svg(width, height, title, body)


def apart(wanted: Sequence[float], gap: float, bounds: tuple[float, float]) -> list[float]:
    """Heights as near as possible to ``wanted``, at least ``gap`` apart, inside ``bounds`` where they fit."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = [wanted[i] for i in order]
    for _ in range(200):
        moved = False
        for i in range(len(placed) - 1):
            overlap = gap - (placed[i + 1] - placed[i])
            if overlap > 0.01:
                placed[i] -= overlap / 2
                placed[i + 1] += overlap / 2
                moved = True
        if placed and placed[0] < bounds[0]:
            placed[0], moved = bounds[0], True
        if placed and placed[-1] > bounds[1]:
            placed[-1], moved = bounds[1], True
        if not moved:
            break
    result = [0.0] * len(wanted)
    for i, value in zip(order, placed, strict=True):
        result[i] = value
    return result


def _axes(frame: Frame, x_label: str, y_label: str) -> Markup:
    body = [_x_axis(frame, x_label)]
    for value in ticks(*frame.y_range, most=6):
        y = frame.y(value)
        body.append(_line("grid", frame.left, y, frame.width - frame.right, y))
        body.append(_text(short(value), frame.left - 7, y + 4, "tick end"))
    body.append(_text(y_label, 2, 12, "label"))
    return Markup("").join(body)


def _x_axis(frame: Frame, label: str) -> Markup:
    base = frame.height - frame.bottom
    body = [_line("axis", frame.left, base, frame.width - frame.right, base)]
    for value in ticks(*frame.x_range, most=7 if frame.width > 500 else 4):
        x = frame.x(value)
        body.append(_line("axis", x, base, x, base + 4))
        body.append(_text(short(value), x, base + 17, "tick middle"))
    body.append(_text(label, frame.width - frame.right, frame.height - 5, "label end"))
    return Markup("").join(body)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(kind, x1, y1, x2, y2)


def _text(words: str, x: float, y: float, kind: str) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, x, y, words)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _svg(width: int, height: int, title: str, body: Sequence[Markup]) -> Markup:
    head = Markup('<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img"><title>{2}</title>').format(
        width, height, title
    )
    return head + Markup("").join(body) + Markup("</svg>")


def both(draw: Callable[[int], Markup]) -> Markup:
    """A drawing for wide and for narrow pages; the page shows one of them."""
    return Markup('<div class="wide">{}</div><div class="narrow">{}</div>').format(draw(WIDE), draw(NARROW))


WIDE, NARROW = 680, 342
