"""From a fine-tuned teacher to a smaller student that does the same task, and what that costs and saves.

The student is some of the teacher's layers, or any smaller model that reads the same ids. It learns from the same kind
of rows by :class:`~variorum.objectives.imitation.Imitation`, and is an estimator like its teacher.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from variorum.errors import UsageError
from variorum.objectives.imitation import Imitating, imitation
from variorum.tasks import job
from variorum.tasks.estimator import Estimator
from variorum.tasks.metrics.intervals import over_all, over_items
from variorum.tasks.registry import load

if TYPE_CHECKING:
    from variorum.face import Model
    from variorum.tasks.metrics.intervals import Figure, Interval

ROUNDS, TIMED = 5, 128
"""Interleaved timings of both models, and rows of each."""
LESSONS: Mapping[str, dict[str, Any]] = {
    "hard": {"hard": 1.0, "soft": 0.0, "hidden": 0.0, "relations": 0.0}, "soft": {"hard": 0.0}, "both": {},
}  # fmt: skip
"""What is left out of a lesson to see what it was worth, at equal steps and from equal weights."""


@dataclass(frozen=True, kw_only=True)
class Distilling:
    """How a student is taught.

    Attributes:
        student: how many of the teacher's layers it has; or a directory, a spec's name or a spec file of a model that
            reads the same ids.
        lesson: what it takes from its teacher.
        parameters: of the estimator where they differ from the teacher's: ``{"epochs": 5, "learning_rate": 1e-4}``.
    """

    student: str
    lesson: Imitating = dataclasses.field(default_factory=Imitating)
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def distil(teacher: Estimator, X: Any, y: Any, how: Distilling) -> Estimator:
    """A fitted student of ``teacher``, which stays as it is.

    Args:
        X, y: what to learn from, as in the teacher's own ``fit``.

    Raises:
        UsageError: student and teacher do not read or answer alike. NotFound: no such student.
    """
    from sklearn.base import clone

    kind = type(teacher)

    class Pupil(kind):  # type: ignore[valid-type, misc]
        """The teacher's kind of estimator, but for where it starts and whom it listens to."""

        watch = teacher.watch

        def begun(self, y: Any) -> None:
            """What answers are, is what they are to the teacher: its classes in their order, its scale."""
            self.model_ = teacher.model_
            self.recall(teacher.learned())

        def started(self, head: str | None, texts: Sequence[str], **wanted: Any) -> Model:
            return student_of(teacher.model_, how.student, seed=self.seed).to(self.device)

        def tune(self, model: Any, objective: Any, *rest: Any) -> None:
            super().tune(model, imitation(objective, teacher.model_, how.lesson), *rest)

    settings = {"adapt": "full", **how.parameters}
    with teacher.answering():
        pupil = Pupil(**{**clone(teacher).get_params(deep=False), **settings}).fit(X, y)
    made = kind(**pupil.get_params(deep=False))
    made.__dict__.update(vars(pupil))
    return made


def student_of(teacher: Model, wanted: str, *, seed: int = 0) -> Model:
    """A model that reads and answers as ``teacher`` does, with all that it can take of the teacher's weights.

    Args:
        wanted: see :attr:`Distilling.student`.
        seed: of what it cannot take.

    Raises:
        UsageError: no fewer layers than the teacher has. NotFound: no such model.
    """
    from variorum import face
    from variorum.checkpoint.load import Fresh
    from variorum.family.reference import architecture
    from variorum.objectives.distillation import start_from
    from variorum.spec.heads import EmbeddingHead
    from variorum.spec.small import worded

    head, names, arch = teacher.head_names[0], teacher.label_names, teacher.spec.architecture
    weights = None if isinstance(arch.heads[head], EmbeddingHead) else head  # the head that has some
    if Path(wanted).is_dir():
        return face.load(Path(wanted), head=weights, fresh_head=Fresh(labels=names, seed=seed))
    if wanted.isdigit():
        deepest = max(stack.depth for stack in arch.stacks.values())
        if not 0 < int(wanted) < deepest:
            raise UsageError(f"{wanted} of {deepest} layers", where="student", remedy=f"give 1 to {deepest - 1}")
        paths = {f"architecture.{name}.depth": min(stack.depth, int(wanted)) for name, stack in arch.stacks.items()}
        spec = teacher.spec.variant(f"{teacher.spec.name}, {wanted} layers", cite=teacher.spec.cite, changes=())
        spec = spec.set(paths)
    else:
        words: Any = arch.source
        spec = worded(architecture(wanted), vocab=arch.vocab, pad_id=words.pad_id, length=_rows(words))
        spec = spec.set({f"architecture.heads.{head}": arch.heads[head]})
    student = face.build(spec, head=weights, seed=seed)
    start_from(student, teacher)
    student.tokenizer, student.label_names = teacher.tokenizer, names
    return student


def _rows(words: Any) -> int:
    """How long a text the teacher's table of positions allows."""
    return int(getattr(words.positions, "rows", 512) - getattr(words.positions, "offset", 0))


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One model beside its teacher.

    Attributes:
        bytes: of its weights in memory. seconds: for one row, the median of interleaved rounds.
        figures: on the rows that were held out, the most important one first.
        kept: the share of the teacher's figure, with its 95 % interval over items, by figure.
    """

    name: str
    parameters: int
    bytes: int
    seconds: float
    figures: Mapping[str, float]
    kept: Mapping[str, Interval]


def measure(models: Mapping[str, Estimator], X: Sequence[Any], y: Any) -> list[Measured]:
    """Size, speed and quality of several estimators on the same rows; the first one is the teacher.

    Raises:
        UsageError: there is nothing to measure on.
    """
    if len(X) < 2:
        raise UsageError("there is nothing to measure on", where="test", remedy="give rows that were held out")
    figures = {name: one.figures_on(X, y) for name, one in models.items()}
    seconds, best = _timed(models, list(X[:TIMED])), next(iter(figures.values()))
    found = []
    for name, one in models.items():
        parameters, mine = list(one.model_.parameters()), figures[name]
        reached = {name: over_all(figure, len(X)) for name, figure in mine.items()}
        found.append(
            Measured(
                name=name, parameters=sum(p.numel() for p in parameters), bytes=sum(p.nbytes for p in parameters),
                seconds=seconds[name], figures=reached,
                kept={name: kept(figure, best[name], len(X)) for name, figure in mine.items()},
            )
        )  # fmt: skip
    return found


def kept(student: Figure, teacher: Figure, items: int) -> Interval:
    """The student's figure over the teacher's, and its 95 % interval over items drawn together; of nothing, none."""

    def share(counts: Any) -> Any:
        mine, best = student(counts), teacher(counts)
        return np.divide(mine, best, out=np.full(len(mine), np.nan), where=best != 0)

    return over_items(share, items)


def _timed(models: Mapping[str, Estimator], rows: list[Any]) -> dict[str, float]:
    """Seconds for a row, the models in turn so that a change of the machine's pace meets all of them."""
    spent: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(ROUNDS):
        for name, one in models.items():
            begun = time.perf_counter()
            one.predict(rows)
            spent[name].append((time.perf_counter() - begun) / len(rows))
    return {name: statistics.median(values) for name, values in spent.items()}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A student to be taught on a table.

    Attributes:
        teacher: a directory that ``variorum train`` wrote.
        data: rows to learn from. names: of its columns, by what they hold, where these are others than in training.
        kept: what is measured on: without rows of its own the share of the data that ``variorum train`` keeps too.
        compare: also teach a student by labels alone and one by the teacher alone, at equal steps.
    """

    teacher: Path
    data: str | Path
    how: Distilling
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    kept: job.Kept = dataclasses.field(default_factory=job.Kept)
    compare: bool = False


def teach(asked: Asked, out: Path, *, say: job.Say) -> list[Measured]:
    """Teach a student, save it to ``out``, and measure it beside its teacher.

    Raises:
        UsageError: student and teacher do not read or answer alike, the teacher's kind of task cannot be imitated,
            there is nothing to measure on, or ``out`` holds something else.
        NotFound, DamagedFile: a file, column or model that is not there, or not one row that can be used.
    """
    from variorum.checkpoint.writing import check_ours

    check_ours(out)
    teacher = load(asked.teacher)
    names = job.named(teacher, {**teacher.names_, **asked.names})
    rows = job.read(teacher, asked.data, names, say, filled=True)
    learned, test = job.apart(teacher, rows, asked.kept, names, say)
    if test is None:
        raise UsageError("there is nothing to measure on", where="--test-share", remedy="give a share above 0")
    models: dict[str, Estimator] = {"teacher": teacher}
    for name in LESSONS if asked.compare else ("both",):
        say(f"teaching a student by {name if asked.compare else 'labels and teacher'}")
        lesson = dataclasses.replace(asked.how.lesson, **LESSONS[name])
        how = dataclasses.replace(asked.how, lesson=lesson)
        models[name if asked.compare else "student"] = distil(teacher, learned.X, learned.y, how)
    student = models["both" if asked.compare else "student"]
    student.names_ = names
    student.save(out)
    return measure(models, test.X, test.y)
