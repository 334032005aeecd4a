"""The report on a trained classifier: one page that stands alone, the same as JSON, and a card for its directory.

    found = examine([model, other_seed], texts, labels, Context(command="variorum report …"))
    write(found, folder)

:mod:`.findings` says what is in it and computes it, :mod:`.drawn` makes the page, :mod:`.card` the card.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from variorum.tasks.report.card import card
from variorum.tasks.report.drawn import page
from variorum.tasks.report.findings import Context, Report, examine
from variorum.training.rundir import write_whole

PAGE, DATA, CARD = "report.html", "report.json", "README.md"


def write(found: Report, folder: Path) -> tuple[Path, ...]:
    """Write ``report.html``, ``report.json`` and ``README.md``, each whole or not at all; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps(dataclasses.asdict(found), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    made = {PAGE: page(found), DATA: content, CARD: card(found)}
    for name, text in made.items():
        write_whole(folder / name, text.encode())
    return tuple(folder / name for name in made)


__all__ = ["Context", "Report", "card", "examine", "page", "write"]
