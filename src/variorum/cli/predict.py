"""``variorum predict``: the answers of a trained task, a row for every row of a table."""

from __future__ import annotations

from pathlib import Path

from variorum.cli.output import emit, say
from variorum.cli.rows import Columns, Data, Device, Trained
from variorum.errors import UsageError


def command(
    directory: Trained, data: Data, *, out: Path | None = None, columns: Columns = (), queue: Path | None = None,
    id_column: str = "", device: Device = "cpu",
) -> None:  # fmt: skip
    """Answer every row of a table, in order; a row that cannot be used says why instead.

    Args:
        out: The file to write rows and answers to; to stdout if absent.
        queue: A file of JSON lines that the rows left undecided are added to, each once; train --add learns from them
            when they have a label.
        id_column: The column that tells rows of the queue apart; all that they hold if absent.
    """
    from variorum.tasks import table
    from variorum.tasks.job import predict

    if out is not None:
        table.writable(out)
    rows = predict(directory, data, roles(columns), device=device, say=say)
    failed = sum(table.ERROR in row for row in rows)
    undecided = sum(row.get("abstained") is True for row in rows)
    if undecided:
        say(f"{undecided:,} of {len(rows):,} rows are left undecided, below the least confidence")
    if queue is not None:  # before the answers are written: whoever ends this now finds the same rows again
        from variorum.tasks.queue import Queue
        from variorum.tasks.queue import undecided as left

        say(f"{Queue(queue).put(left(rows, id_column)):,} rows were added to {queue}")
    if out is None:
        emit(rows)
        return
    table.write(out, rows)
    emit({"file": str(out), "rows": len(rows), "undecided": undecided, "failed": failed})


def roles(columns: tuple[str, ...]) -> dict[str, str]:
    """Names of columns by what they hold.

    Raises:
        UsageError: one is not role=name.
    """
    found = {}
    for said in columns:
        role, equals, name = said.partition("=")
        if not equals or not role or not name:
            raise UsageError(f"{said!r} is not role=name", where="--columns", remedy="say text=body")
        found[role] = name
    return found
