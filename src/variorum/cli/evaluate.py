"""``variorum evaluate``: how well a trained task does on labelled rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from variorum.cli.output import emit, say
from variorum.cli.reading import Option


def command(
    directory: Path, data: str, *, columns: Annotated[tuple[str, ...], Option(many=True)] = (), device: str = "cpu"
) -> None:
    """Compare a trained task's answers with what is right; low and high bound the first figure, over items.

    Args:
        directory: What variorum train wrote.
        data: Labelled rows: .csv, .tsv, .jsonl or .parquet, or - for stdin.
        columns: Where the table's columns have other names than in training, each as role=name: text=body.
        device: Where it runs: cpu, cuda or cuda:N.
    """
    from variorum.cli.predict import roles
    from variorum.tasks.job import evaluate

    emit(evaluate(directory, data, roles(columns), device=device, say=say))
