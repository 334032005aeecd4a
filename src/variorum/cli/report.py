"""``variorum report``: where a trained task is right and wrong, as one page that stands alone."""

from __future__ import annotations

from pathlib import Path

from variorum.cli.output import emit, say
from variorum.cli.rows import Columns, Labelled, Trained


def command(
    model: Trained, data: Labelled, *, out: Path, train: str | None = None, seeds: str = "", slices: str = "",
    columns: Columns = (),
) -> None:  # fmt: skip
    """Examine a trained task on rows that it did not learn from: report.html, report.json and a card.

    Figures with intervals, every class, what is taken for what, calibration, the worst errors, slices by length,
    language and columns. Nothing in the page needs a network or runs a script.

    Args:
        out: The folder to write to.
        train: The rows that it learned from; baselines learn from them too, and they are audited against these.
        seeds: Further directories, trained with other seeds, with commas between them.
        slices: Columns to look at value by value, with commas between them.
    """
    from variorum.cli.predict import roles
    from variorum.tasks.report import write
    from variorum.tasks.report.job import Asked, report

    told = ["variorum report", str(model), str(data), f"--out {out}"]
    told += [f"--{name} {value}" for name, value in (("train", train), ("seeds", seeds), ("slices", slices)) if value]
    told += [f"--columns {' '.join(columns)}"] if columns else []
    asked = Asked(
        models=[model, *map(Path, _listed(seeds))], data=data, names=roles(columns), train=train,
        slices=_listed(slices), command=" ".join(told),
    )  # fmt: skip
    found = report(asked, say=say)
    written = write(found, out)
    emit({
        "rows": found.rows, **{one.name: one.items.said() for one in found.figures},
        **({"calibration error": f"{found.error:.3f}"} if found.axes[0] == "confidence" else {}),
        ("in windows" if found.windows else "cut"): found.longer, "page": str(written[0]),
    })  # fmt: skip


def _listed(names: str) -> list[str]:
    return [name for name in names.split(",") if name]
