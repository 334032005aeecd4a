"""``variorum distil``: a smaller student of a fine-tuned model, and what it keeps of its quality."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from variorum.cli.output import emit, say
from variorum.cli.rows import Columns, Data, Out, Trained
from variorum.cli.train import TESTED, Testing

if TYPE_CHECKING:
    from variorum.tasks.distil import Distilling, Measured


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lesson:
    """What the student takes from its teacher, and how long it learns.

    Args:
        temperature: At which scores are compared.
        soft: Weight of the teacher's scores.
        hard: Weight of the right answers.
        hidden: Weight of the last states' cosine, of vectors that of the texts'; both models must have one width.
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

    def of(self, student: str) -> Distilling:
        """The same as a job takes it."""
        from variorum.objectives.imitation import Imitating
        from variorum.tasks.distil import Distilling

        weights = {name: getattr(self, name) for name in ("temperature", "soft", "hard", "hidden", "relations")}
        given: dict[str, Any] = {"epochs": self.epochs, "learning_rate": self.learning_rate, "random_state": self.seed}
        said = {name: value for name, value in given.items() if value is not None}
        return Distilling(student=student, lesson=Imitating(**weights), parameters=said)


USUAL = Lesson()


def command(
    teacher: Trained, data: Data, *, student: str, out: Out, compare: bool = False, columns: Columns = (),
    testing: Testing = TESTED, lesson: Lesson = USUAL,
) -> None:  # fmt: skip
    """Teach a smaller model to answer as a fine-tuned one does.

    Prints size, speed and figures of both, and how much of the teacher's first figure the student keeps, with an
    interval. Without --test both are measured on the rows that train keeps from the same table.

    Args:
        teacher: A directory that variorum train wrote, for labels, numbers, tags, stretches of a text or vectors.
        student: How many of the teacher's layers it has; or a directory, a spec's name or a spec file of a smaller
            model that reads the same ids.
        compare: Also teach two students by labels alone and by the teacher alone, at equal steps, and show all three.
    """
    from variorum.cli.predict import roles
    from variorum.tasks.distil import Asked, teach

    asked = Asked(teacher=teacher, data=data, how=lesson.of(student), names=roles(columns), kept=testing.kept(),
                  compare=compare)  # fmt: skip
    found = teach(asked, out, say=say)
    emit([_shown(one, found[0]) for one in found])


def _shown(one: Measured, teacher: Measured) -> dict[str, object]:
    kept = next(iter(one.kept.values()))
    return {
        "model": one.name, "parameters": one.parameters, "bytes": one.bytes,
        "rows_per_second": round(1 / one.seconds, 1), "speedup": round(teacher.seconds / one.seconds, 2),
        **{name: round(value, 4) for name, value in one.figures.items()},
        "kept": round(kept.value, 4), "kept_low": round(kept.low, 4), "kept_high": round(kept.high, 4),
    }  # fmt: skip
