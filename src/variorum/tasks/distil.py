"""From a fine-tuned teacher to a smaller student that does the same task, and what that costs and saves.

The student is some of the teacher's layers, or any smaller model that reads the same ids. It learns from the same kind
of rows by :class:`~variorum.objectives.imitation.Imitation`, and is an estimator like its teacher.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variorum.errors import UsageError
from variorum.objectives.imitation import Imitating, Imitation
from variorum.tasks.estimator import Estimator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from variorum.face import Model

ROUNDS, TIMED, DRAWS = 5, 128, 2000
"""Interleaved timings of both models, texts of each, and bootstrap draws of the items."""
LESSONS: Mapping[str, dict[str, float]] = {
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

        def started(self, head: str | None, texts: Sequence[str], **wanted: Any) -> Model:
            return student_of(teacher.model_, how.student, seed=self.seed).to(self.device)

        def tune(self, model: Any, objective: Any, *rest: Any) -> None:
            super().tune(model, Imitation(objective, teacher.model_, how.lesson), *rest)

    settings = {"adapt": "full", **how.parameters}
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
    from variorum.spec.small import worded

    head, names = teacher.head_names[0], teacher.label_names
    if Path(wanted).is_dir():
        return face.load(Path(wanted), head=head, fresh_head=Fresh(labels=names, seed=seed))
    arch = teacher.spec.architecture
    if wanted.isdigit():
        deepest = max(stack.depth for stack in arch.stacks.values())
        if not 0 < int(wanted) < deepest:
            raise UsageError(f"{wanted} of {deepest} layers", where="student", remedy=f"give 1 to {deepest - 1}")
        paths = {f"architecture.{name}.depth": min(stack.depth, int(wanted)) for name, stack in arch.stacks.items()}
        spec = dataclasses.replace(teacher.spec.set(paths), name=f"{teacher.spec.name}, {wanted} layers")
    else:
        words: Any = arch.source
        spec = worded(architecture(wanted), vocab=arch.vocab, pad_id=words.pad_id, length=_rows(words))
        spec = spec.set({f"architecture.heads.{head}": arch.heads[head]})
    student = face.build(spec, head=head, seed=seed)
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
        bytes: of its weights in memory. seconds: for one text, the median of interleaved rounds.
        accuracy: on the rows that were held out. kept: its share of the teacher's accuracy, with the 95 % interval over
            items.
    """

    name: str
    parameters: int
    bytes: int
    seconds: float
    accuracy: float
    kept: tuple[float, float, float]


def measure(models: Mapping[str, Estimator], X: Sequence[Any], y: Any) -> list[Measured]:
    """Size, speed and quality of several estimators on the same rows; the first one is the teacher.

    Raises:
        UsageError: there is nothing to measure on.
    """
    import numpy as np

    if len(X) < 2:
        raise UsageError("there is nothing to measure on", where="test", remedy="give rows that were held out")
    truth = np.asarray(y)
    right = {name: np.asarray(one.predict(X)).reshape(len(X), -1) == truth.reshape(len(X), -1)
             for name, one in models.items()}  # fmt: skip
    correct = {name: hits.all(-1) for name, hits in right.items()}
    seconds = _timed(models, list(X[:TIMED]))
    first = next(iter(models))
    found = []
    for name, one in models.items():
        parameters = list(one.model_.parameters())
        found.append(
            Measured(
                name=name, parameters=sum(p.numel() for p in parameters), bytes=sum(p.nbytes for p in parameters),
                seconds=seconds[name], accuracy=float(correct[name].mean()),
                kept=kept(correct[name], correct[first]),
            )
        )  # fmt: skip
    return found


def kept(student: NDArray[np.bool_], teacher: NDArray[np.bool_], *, seed: int = 0) -> tuple[float, float, float]:
    """The student's accuracy over the teacher's, and its 95 % percentile interval over items drawn together."""
    import numpy as np

    if not teacher.any():
        return math.nan, math.nan, math.nan
    drawn = np.random.default_rng(seed).integers(0, len(teacher), (DRAWS, len(teacher)))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = student[drawn].sum(-1) / teacher[drawn].sum(-1)
    low, high = np.nanquantile(ratios, (0.025, 0.975))
    return float(student.sum() / teacher.sum()), float(low), float(high)


def _timed(models: Mapping[str, Estimator], texts: list[Any]) -> dict[str, float]:
    """Seconds for a text, the models in turn so that a change of the machine's pace meets all of them."""
    spent: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(ROUNDS):
        for name, one in models.items():
            begun = time.perf_counter()
            one.predict(texts)
            spent[name].append((time.perf_counter() - begun) / len(texts))
    return {name: statistics.median(values) for name, values in spent.items()}
