"""``variorum distil``: a smaller student of a fine-tuned model, and what it keeps of its quality."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variorum.cli.output import emit, say
from variorum.errors import UsageError

if TYPE_CHECKING:
    from variorum.tasks.distil import Measured
    from variorum.tasks.estimator import Estimator
    from variorum.tasks.table import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lesson:
    """What the student takes from its teacher, and how long it learns.

    Args:
        temperature: At which scores are compared.
        soft: Weight of the teacher's scores.
        hard: Weight of the right labels.
        hidden: Weight of the last states' cosine; both models must have one width.
        relations: Weight of how tokens stand to each other in the last layer (MiniLM); widths may differ.
        epochs: Times that every row is read; as the teacher if absent.
        learning_rate: At its peak; as the teacher if absent.
        seed: Of the order of rows, dropout and what the student cannot take.
    """

    temperature: float = 2.0
    soft: float = 1.0
    hard: float = 1.0
    hidden: float = 0.0
    relations: float = 0.0
    epochs: int | None = None
    learning_rate: float | None = None
    seed: int = 0


USUAL = Lesson()


def command(
    teacher: Path, data: Path, *, student: str, out: Path, test: Path | None = None, test_share: float = 0.2,
    compare: bool = False, text_column: str = "text", label_column: str = "label", lesson: Lesson = USUAL,
) -> None:  # fmt: skip
    """Teach a smaller model to answer as a fine-tuned one does.

    Prints size, speed and accuracy of both, and how much of the teacher's accuracy the student keeps, with an interval.

    Args:
        teacher: A directory that variorum train wrote: a classifier of texts.
        data: Rows to learn from: .csv, .tsv, .jsonl or .parquet, or - for stdin.
        student: How many of the teacher's layers it has; or a directory, a spec's name or a spec file of a smaller
            model that reads the same ids.
        out: The directory to write the student to.
        test: Rows to measure on, which nobody learns from.
        test_share: Without --test, the share of the rows that is kept for that.
        compare: Also teach two students by labels alone and by the teacher alone, at equal steps, and show all three.
        text_column: The column of texts.
        label_column: The column of labels.
    """
    from variorum import tasks
    from variorum.objectives.imitation import Imitating
    from variorum.tasks import table
    from variorum.tasks.distil import LESSONS, Distilling, distil, measure
    from variorum.tasks.estimator import held_out

    master: Estimator = tasks.load(teacher)
    if master.kind != "classify":
        raise UsageError(
            f"was trained to {master.kind}", where=str(teacher), remedy="students of classifiers are taught"
        )
    texts, labels = _rows(table.read(data, (text_column, label_column)), text_column, label_column)
    if test is not None:
        kept, asked = _rows(table.read(test, (text_column, label_column)), text_column, label_column)
    else:
        learned, held = held_out(len(texts), test_share, lesson.seed, labels)
        kept, asked = [texts[i] for i in held], [labels[i] for i in held]
        texts, labels = [texts[i] for i in learned], [labels[i] for i in learned]
    given: dict[str, Any] = {"random_state": lesson.seed}
    given |= {n: v for n in ("epochs", "learning_rate") if (v := getattr(lesson, n)) is not None}
    weights = {name: getattr(lesson, name) for name in ("temperature", "soft", "hard", "hidden", "relations")}
    models: dict[str, Estimator] = {"teacher": master}
    for name in LESSONS if compare else ("both",):
        say(f"teaching a student by {name if compare else 'labels and teacher'}")
        how = Distilling(student=student, lesson=Imitating(**weights | LESSONS[name]), parameters=given)
        models[name if compare else "student"] = distil(master, texts, labels, how)
    models["both" if compare else "student"].save(out)
    emit([_shown(one, found[0]) for found in [measure(models, kept, asked)] for one in found])


def _rows(read: Table, text: str, label: str) -> tuple[list[str], list[str]]:
    read.tell(say)
    return read.column(text), read.column(label)


def _shown(one: Measured, teacher: Measured) -> dict[str, object]:
    value, low, high = one.kept
    return {
        "model": one.name, "parameters": one.parameters, "bytes": one.bytes,
        "texts_per_second": round(1 / one.seconds, 1), "speedup": round(teacher.seconds / one.seconds, 2),
        "accuracy": round(one.accuracy, 4), "kept": round(value, 4), "kept_low": round(low, 4),
        "kept_high": round(high, 4),
    }  # fmt: skip
