"""Attention maps as pictures: SVG with words, PNG of the bare maps. No drawing library.

A picture is a grid of panels, a row a layer and a column a head; one head of DeBERTa shows its score terms beside the
weights. Weights run from white (0) to dark blue (1); terms from red (negative) over white to blue, each by its largest.
"""

from __future__ import annotations

import base64
import dataclasses
import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from variorum.inference.attention_maps import Maps

Pixels = npt.NDArray[np.uint8]
Values = npt.NDArray[np.float32]
BLUES = ((255, 255, 255), (107, 174, 214), (8, 48, 107))
RED = (178, 24, 43)
INK = "#222"
CELL = 18  # SVG units of one token in a panel that has words
PANEL = 92  # and of a panel that has none
GAP = 6
LONGEST_NAMED = 80  # tokens that still get words
PANELS_NAMED = 4
LETTER = 7.2  # units a letter of the font takes


@dataclasses.dataclass(frozen=True)
class Panel:
    """One map: values [Q, K], and whether they are signed scores rather than weights."""

    title: str
    values: Values
    signed: bool = False


def panels(maps: Maps) -> list[list[Panel]]:
    """The grid: layers down, heads across; with one head, its terms across."""
    grid = []
    for i, layer in enumerate(maps.layers):
        row = [
            Panel(f"layer {layer} head {head}", maps.weights[i, j].numpy()) for j, head in enumerate(maps.heads)
        ]  # fmt: skip
        if len(maps.heads) == 1:
            row += [Panel(name, values[i, 0].numpy(), signed=True) for name, values in maps.terms.items()]
        grid.append(row)
    return grid


def colours(panel: Panel) -> Pixels:
    """Values [Q, K] as colours [Q, K, 3]."""
    values = panel.values
    if panel.signed:
        largest = float(np.abs(values).max()) or 1.0
        return np.where(
            values[..., None] < 0, _between(-values / largest, ((255,) * 3, RED)), _between(values / largest)
        )
    return _between(values)


def _between(share: Values, stops: Sequence[tuple[int, ...]] = BLUES) -> Pixels:
    places = np.linspace(0, 1, len(stops))
    channels = [np.interp(share, places, [stop[c] for stop in stops]) for c in range(3)]
    return np.stack(channels, -1).round().astype(np.uint8)


def png(maps: Maps) -> bytes:
    """The grid as a PNG; it holds no words."""
    grid = panels(maps)
    queries, keys = grid[0][0].values.shape
    scale = max(1, (512 if len(grid) * len(grid[0]) <= PANELS_NAMED else 64) // max(queries, keys))
    rows = []
    for line in grid:
        images = [colours(panel).repeat(scale, 0).repeat(scale, 1) for panel in line]
        rows.append(np.concatenate([_framed(image) for image in images], 1))
    return encoded(np.concatenate(rows, 0))


def _framed(image: Pixels) -> Pixels:
    return np.pad(image, ((1, 2), (1, 2), (0, 0)), constant_values=160)


def encoded(pixels: Pixels) -> bytes:
    """RGB pixels [rows, columns, 3] as a PNG file (RFC 2083: 8-bit truecolour, filter 0)."""
    height, width = pixels.shape[:2]
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], 1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    body = b"".join(struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


def svg(maps: Maps) -> str:
    """The grid as an SVG; with words and values to point at where there are few panels."""
    grid = panels(maps)
    queries, keys = grid[0][0].values.shape
    named = len(grid) * len(grid[0]) <= PANELS_NAMED and max(queries, keys) <= LONGEST_NAMED
    longest = max(map(len, maps.queries.labels)) * LETTER + 8 if named else 0
    top = max(map(len, maps.keys.labels)) * LETTER + 26 if named else 16
    width, height = (keys * CELL, queries * CELL) if named else (PANEL, PANEL)
    parts = []
    for r, line in enumerate(grid):
        for c, panel in enumerate(line):
            x, y = GAP + longest + c * (width + GAP + longest), GAP + top + r * (height + GAP + top)
            parts.append(f'<g transform="translate({x:.1f} {y:.1f})">{_panel(maps, panel, named, width, height)}</g>')
    total = (GAP + len(grid[0]) * (width + GAP + longest), GAP + len(grid) * (height + GAP + top))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total[0]:.0f}" height="{total[1]:.0f}" '
        f'viewBox="0 0 {total[0]:.0f} {total[1]:.0f}" font-family="monospace" font-size="12" fill="{INK}">\n'
        f"<title>{escape(maps.kind)} attention: rows are queries, columns are keys</title>\n"
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(maps: Maps, panel: Panel, named: bool, width: float, height: float) -> str:
    if not named:
        data = base64.b64encode(encoded(colours(panel))).decode()
        return (
            f'<text y="-4" font-size="9">{escape(panel.title)}</text>'
            f'<image width="{width}" height="{height}" preserveAspectRatio="none" image-rendering="pixelated" '
            f'href="data:image/png;base64,{data}"/>'
            f'<rect width="{width}" height="{height}" fill="none" stroke="#999"/>'
        )
    rows, columns = maps.queries.labels, maps.keys.labels
    pixels = colours(panel)
    parts = [
        f'<text y="{-len(max(columns, key=len)) * LETTER - 14:.1f}" font-weight="bold">{escape(panel.title)}</text>'
    ]
    for j, word in enumerate(columns):
        at = f"{j * CELL + CELL * 0.7:.1f} -5"
        parts.append(f'<text transform="translate({at}) rotate(-90)">{_word(word)}</text>')
    for i, word in enumerate(rows):
        parts.append(f'<text x="-5" y="{i * CELL + CELL * 0.7:.1f}" text-anchor="end">{_word(word)}</text>')
        for j, key in enumerate(columns):
            tip = f"{word} → {key}: {panel.values[i, j]:.3f}"
            fill = "#" + bytes(pixels[i, j]).hex()
            parts.append(
                f'<rect x="{j * CELL}" y="{i * CELL}" width="{CELL}" height="{CELL}" fill="{fill}">'
                f"<title>{_word(tip)}</title></rect>"
            )
    parts.append(f'<rect width="{width}" height="{height}" fill="none" stroke="#999"/>')
    return "".join(parts)


def _word(text: str) -> str:
    """Text of a user as XML may hold it: what cannot be printed is shown as a box."""
    return escape("".join(letter if letter.isprintable() else "\u25a1" for letter in text))
