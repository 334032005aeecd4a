"""How trials are shown to people: macro-F1 and F1 by class of each way, and the gain over the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from variorum.cli.output import Column, table

if TYPE_CHECKING:
    from variorum.tasks.trials import Trial


def table_of(trials: Sequence[Trial]) -> list[str]:
    """The lines of a table."""
    rows: list[dict[str, object]] = []
    for trial in trials:
        for name, figure in trial.f1.items():
            gain = trial.gain.get(name)
            rows.append({
                "learns_from": trial.name, "rows": trial.rows, "f1_of": name, "f1": figure.said(),
                "gain": "" if gain is None else gain.said("+"),
            })  # fmt: skip
    return table(rows, [Column("learns_from"), Column("rows"), Column("f1_of"), Column("f1", "F1"), Column("gain")])
