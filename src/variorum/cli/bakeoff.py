"""What the verbs share that hold a bake-off: its flags, and what they ask for."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from variorum.cli.reading import Option

if TYPE_CHECKING:
    from variorum.study.asked import BakeOff


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contest:
    """How a bake-off is held.

    Args:
        task: What the rows ask for.
        columns: Where the table's columns have other names than the task's, each as role=name: text=body.
        document: The column that says which rows belong together; they are held out together.
        out: Folder for cells, result.json and report.html.
        seeds: Of every arm in which chance has a part; a verdict needs 3.
        epochs: Times that every row is read.
        learning_rate: At its peak.
        rates: Peak learning rates that every arm which learns tries on a part of the training rows, to keep the one
            that suits it.
        max_length: Tokens of a text that are read.
        precision: Of products while it learns; bfloat16 is several times faster where the processor has it.
    """

    task: Literal["classify", "pairs", "number", "pairs-number", "tag", "embed", "embed-score", "answer", "seq2seq"] = (
        "classify"
    )
    columns: Annotated[tuple[str, ...], Option(many=True)] = ()
    document: str | None = None
    out: Path = Path("study-bakeoff")
    seeds: int = 5
    epochs: int = 3
    learning_rate: float = 5e-5
    rates: Annotated[tuple[float, ...], Option(many=True)] = ()
    max_length: int = 128
    precision: Literal["float32", "bfloat16"] = "float32"


USUAL = Contest()


def asked(data: str, models: tuple[str, ...], contest: Contest) -> BakeOff:
    """The bake-off that is meant."""
    from variorum.cli.predict import roles
    from variorum.study.asked import BakeOff

    return BakeOff(
        models=models, data=data, task=contest.task, columns=roles(contest.columns), document=contest.document or "",
        seeds=contest.seeds, epochs=contest.epochs, learning_rate=contest.learning_rate, max_length=contest.max_length,
        precision=contest.precision, rates=contest.rates,
    )  # fmt: skip
