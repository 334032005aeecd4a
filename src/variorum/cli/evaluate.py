"""``variorum evaluate``: how well a trained task does on labelled rows."""

from __future__ import annotations

from variorum.cli.figures import human
from variorum.cli.output import emit, say
from variorum.cli.rows import Columns, Device, Labelled, Trained


def command(directory: Trained, data: Labelled, *, columns: Columns = (), device: Device = "cpu") -> None:
    """Compare a trained task's answers with what is right; low and high bound the first figure, over items."""
    from variorum.cli.predict import roles
    from variorum.tasks.job import evaluate

    found = evaluate(directory, data, roles(columns), device=device, say=say)
    emit(found, human=human([found]))
