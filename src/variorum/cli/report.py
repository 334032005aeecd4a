"""``variorum report``: where a trained classifier is right and wrong, as one page that stands alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from variorum.cli.output import emit, say
from variorum.errors import UsageError

if TYPE_CHECKING:
    from variorum.tasks.table import Table


def command(
    model: Path, data: Path, *, out: Path, train: Path | None = None, seeds: str = "", slices: str = "",
    text_column: str = "", label_column: str = "",
) -> None:  # fmt: skip
    """Examine a trained classifier on rows that it did not learn from: report.html, report.json and a card.

    Macro-F1 and accuracy with intervals, every class, confusions, calibration, the worst errors, slices by length,
    language and columns. Nothing in the page needs a network or runs a script.

    Args:
        model: A directory that variorum train wrote.
        data: Labelled rows: .csv, .tsv, .jsonl or .parquet, or - for stdin.
        out: The folder to write to.
        train: The rows that it learned from; a baseline learns from them too, and they are audited against these.
        seeds: Further directories, trained with other seeds, with commas between them.
        slices: Columns to look at value by value, with commas between them.
        text_column: The column of texts; as in training if absent.
        label_column: The column of labels; as in training if absent.
    """
    from variorum import tasks
    from variorum.tasks import table
    from variorum.tasks.report import Context, examine, write

    places = [model, *(Path(place) for place in seeds.split(",") if place)]
    models: list[Any] = [tasks.load(place) for place in places]
    if models[0].kind != "classify":
        raise UsageError(f"was trained to {models[0].kind}", where=str(model), remedy="reports are on classifiers")
    names = {"text": text_column, "label": label_column}
    columns = {role: names[role] or models[0].names_.get(role, role) for role in names}
    by = [name for name in slices.split(",") if name]
    rows = table.read(data, (*columns.values(), *by))
    rows.tell(say)
    texts, labels = rows.column(columns["text"]), rows.column(columns["label"])
    learned = None if train is None else table.read(train, columns.values())
    baseline = None if learned is None else _baseline(learned, columns, texts)
    told = ["variorum report", str(model), str(data), f"--out {out}"]
    told += [f"--{name} {value}" for name, value in (("train", train), ("seeds", seeds), ("slices", slices)) if value]
    told += [f"--{role}-column {name}" for role, name in names.items() if name]
    context = Context(
        command=" ".join(told), slices={name: rows.column(name) for name in by}, baseline=baseline,
        audit=_noticed(rows, learned, columns),
    )  # fmt: skip
    found = examine(models, texts, labels, context)
    written = write(found, out)
    emit({
        "rows": found.rows,
        **{one.name: one.items.said() for one in found.figures},
        "calibration error": f"{found.error:.3f}", "cut": found.cut, "page": str(written[0]),
    })  # fmt: skip


def _baseline(rows: Table, columns: dict[str, str], texts: list[str]) -> tuple[str, list[str]]:
    """The usual simple model's name and answers, after it learned from ``rows``."""
    from variorum.tasks.baselines import baseline

    simple = baseline("classify").fit(rows.column(columns["text"]), rows.column(columns["label"]))
    return simple.name, [str(label) for label in simple.predict(texts)]


def _noticed(rows: Table, learned: Table | None, columns: dict[str, str]) -> tuple[str, ...]:
    """What an audit says of the rows, or of those that were learned from with these beside them."""
    from variorum.tasks.audit.run import Columns, audit

    looked = Columns(text=columns["text"], label=columns["label"])
    found = audit(rows, looked) if learned is None else audit(learned, looked, test=rows)
    return tuple(f"{one.severity.value}: {one.what} ({one.rows:,} rows)" for one in found.findings)
