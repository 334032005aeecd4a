"""``python docs/picture.py``: the family tree as ``docs/family.svg``, drawn from the specs."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from variorum.family import children, models
from variorum.family.steps import kind_of
from variorum.spec.model import Model

FILE = Path(__file__).with_name("family.svg")
COLUMN, BOX, ROW, HEIGHT, TOP, EDGE = 264, 240, 44, 38, 56, 16
LETTERS = 36
COLOURS = {"encoders": "#7a4fbf", "decoders": "#1f7a6d", "seq2seq": "#b4632a", None: "#8a8f98"}
KINDS = {"encoders": "encoder", "decoders": "decoder", "seq2seq": "encoder–decoder", None: "recurrent"}
STYLE = (
    'text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#1d2430}'
    ".name{font-size:14px;font-weight:600}.year{font-size:11px;fill:#667080}.what{font-size:11.5px;fill:#3c4656}"
    ".edge{fill:none;stroke:#b6bec9;stroke-width:1.5}.box{fill:#fff;stroke:#d5dae1}"
)
TITLE = "Every model is a short diff on its ancestor"


def picture() -> str:
    """The drawing: a box for each model right of its ancestor, with its year and what it changed first."""
    places: dict[str, tuple[int, float]] = {}
    row = 0.0
    for model in models().values():
        if model.ancestor is None:
            row = _place(model, 0, row, places)
    width = 2 * EDGE + COLUMN * max(column for column, _ in places.values()) + BOX
    height = int(TOP + row * ROW + 10)
    edges = [_edge(places[m.ancestor.name], places[m.name]) for m in models().values() if m.ancestor is not None]
    boxes = [_box(model, *_corner(places[model.name])) for model in models().values()]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' role="img" aria-labelledby="title">',
        f'<title id="title">{TITLE}: the family tree, drawn from the specs</title>',
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fbfbfa"/>',
        f'<text x="{EDGE}" y="32" style="font-size:17px;font-weight:600">{TITLE}</text>',
        *_legend(width),
        *edges,
        *boxes,
        "</svg>\n",
    ])  # fmt: skip


def _place(model: Model, column: int, row: float, places: dict[str, tuple[int, float]]) -> float:
    """Put a model in the middle of its descendants; returns the next free row."""
    start = row
    for child in children(model.name):
        row = _place(child, column + 1, row, places)
    below = [places[child.name][1] for child in children(model.name)]
    places[model.name] = (column, (below[0] + below[-1]) / 2 if below else row)
    return row if row > start else row + 1


def _corner(place: tuple[int, float]) -> tuple[int, int]:
    return EDGE + place[0] * COLUMN, round(TOP + place[1] * ROW)


def _edge(ancestor: tuple[int, float], child: tuple[int, float]) -> str:
    (x, y), (to_x, to_y) = _corner(ancestor), _corner(child)
    x, y, to_y = x + BOX, y + HEIGHT // 2, to_y + HEIGHT // 2
    middle = (x + to_x) // 2
    return f'<path class="edge" d="M{x} {y}C{middle} {y} {middle} {to_y} {to_x} {to_y}"/>'


def _box(model: Model, x: int, y: int) -> str:
    year = re.search(r"\b(?:19|20)\d\d\b", model.cite)
    return (
        f'<g id="{escape(model.name)}"><rect class="box" x="{x}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="6"/>'
        f'<rect x="{x}" y="{y}" width="5" height="{HEIGHT}" rx="2.5" fill="{COLOURS[kind_of(model)]}"/>'
        f'<text class="name" x="{x + 13}" y="{y + 16}">{escape(model.name)}</text>'
        f'<text class="year" x="{x + BOX - 9}" y="{y + 16}" text-anchor="end">{year[0] if year else ""}</text>'
        f'<text class="what" x="{x + 13}" y="{y + 31}">{escape(_what(model))}</text></g>'
    )


def _what(model: Model) -> str:
    """The first reason that a model gives for a change, of one that answers a weakness if there is one."""
    if not model.changes:
        return "the ancestor" if children(model.name) else "beside the family, to compare with"
    reasons = [change.why for change in model.changes if change.relieves] or [model.changes[0].why]
    first = next((why for why in reasons if len(why) <= LETTERS), reasons[0])
    return first if len(first) <= LETTERS else first[:LETTERS].rpartition(" ")[0].rstrip(" ,;:") + " …"


def _legend(width: int) -> list[str]:
    drawn, x = [], width - EDGE
    for kind in reversed(KINDS):
        x -= 18 + 7 * len(KINDS[kind])
        drawn.append(f'<rect x="{x}" y="22" width="5" height="14" rx="2.5" fill="{COLOURS[kind]}"/>')
        drawn.append(f'<text class="what" x="{x + 10}" y="33">{KINDS[kind]}</text>')
    return drawn


if __name__ == "__main__":
    FILE.write_text(picture(), "utf-8")
    print(FILE)
