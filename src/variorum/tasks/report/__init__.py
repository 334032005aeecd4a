"""The report on a trained task: one page that stands alone, the same as JSON, and a card for its directory.

    found = examine([model, other_seed], texts, labels, Context(command="variorum report …"))
    write(found, folder)

:mod:`.findings` says what is in it and computes it, :mod:`.drawn` makes the page, :mod:`.card` the card; :mod:`.job`
does all that for a table.
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from variorum.files import write_whole
from variorum.tasks.report.card import card
from variorum.tasks.report.drawn import page
from variorum.tasks.report.findings import Context, Report, examine

PAGE, DATA, CARD = "report.html", "report.json", "README.md"


def write(found: Report, folder: Path) -> tuple[Path, ...]:
    """Write ``report.html``, ``report.json`` and ``README.md``, each whole or not at all; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps(_finite(dataclasses.asdict(found)), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    made = {PAGE: page(found), DATA: content, CARD: card(found)}
    for name, text in made.items():
        write_whole(folder / name, text.encode())
    return tuple(folder / name for name in made)


def _finite(value: Any) -> Any:
    """``value`` with nothing in the place of numbers that JSON does not know."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


__all__ = ["Context", "Report", "card", "examine", "page", "write"]
