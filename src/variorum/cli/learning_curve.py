"""``variorum learning-curve``: whether more labels would pay, class by class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from variorum.cli.output import Column, chosen, emit, say
from variorum.cli.reading import Option
from variorum.cli.rows import Labels, Texts


def command(
    data: Path,
    *,
    test: Path | None = None,
    model: str = "baseline",
    text_column: Texts = "text",
    label_column: Labels = "label",
    shares: Annotated[tuple[float, ...], Option(many=True)] = (0.1, 0.2, 0.4, 0.7, 1.0),
    seeds: int = 3,
    worth: float = 0.01,
    epochs: int = 3,
) -> None:
    """Learn from growing shares of labelled rows, and say of each class what twice its labels would bring.

    A class pays where even the low end of the interval is worth it, and does not where the high end is not.

    Args:
        data: Labelled rows: .csv, .tsv, .jsonl or .parquet.
        test: Held-out rows to judge by; a fifth of the data if absent.
        model: What learns: a model reference, or baseline for TF-IDF with logistic regression.
        shares: Of the rows, that are learnt from.
        seeds: How often each share is drawn and learnt from.
        worth: The gain in F1 that twice the labels have to bring.
        epochs: Of a model, over each share.
    """
    from variorum.tasks import table
    from variorum.tasks.estimator import held_out
    from variorum.tasks.learning_curve import curves
    from variorum.tasks.trials import BASELINE, Rows, learner

    tables = [table.read(path, [text_column, label_column]) for path in (data, test) if path is not None]
    for one in tables:
        one.tell(say)
    train, *others = (Rows(one.column(text_column), one.column(label_column)) for one in tables)
    if not others:
        learned, held = held_out(len(train.texts), 0.2, 0, train.labels)
        train, others = train.at(learned), [train.at(held)]
    learn = learner(model, **({} if model == BASELINE else {"epochs": epochs}))
    found = curves(learn, train, others[0], shares=shares, seeds=seeds, worth=worth)
    if chosen() != "human":
        emit(found)
        return
    said = {True: "yes", False: "no", None: "cannot be told"}
    rows = [
        {
            "label": one.label,
            "f1": " ".join(f"{point.f1:.3f}" for point in one.points),
            "items": " ".join(f"{point.items:,}" for point in one.points),
            "gain": f"{one.gain:+.3f} [{one.low:+.3f}, {one.high:+.3f}]",
            "pays": said[one.pays],
        }
        for one in found
    ]
    emit(rows, columns=["label", "items", Column("f1", "F1"), Column("gain", "gain by twice"), Column("pays", "pays")])
