"""What an arm of a bake-off is given to learn from, and what every way of learning it can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from variorum.tasks.finetuning import Watch

BATCH = 32
"""Rows of a step, as the estimators have it."""
Predict = Callable[[Sequence[Any]], list[Any]]


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What an arm is given to learn from.

    Attributes:
        kind: of the task. model: as :func:`variorum.tasks.start.start` takes it; empty for a baseline.
        X, y: rows and what is right for each. classes: names of the numbers in ``y``, where these are classes.
        how: parameters of the estimator.
    """

    kind: str
    model: str
    X: Sequence[Any]
    y: Sequence[Any]
    classes: tuple[str, ...] = ()
    seed: int = 0
    how: Mapping[str, Any] = field(default_factory=dict)

    def some(self, rows: int) -> Lesson:
        """One reading of so many of the rows, spread evenly: for a timed start."""
        picked = range(0, len(self.X), max(1, len(self.X) // rows))[:rows]
        X, y = ([values[i] for i in picked] for values in (self.X, self.y))
        return replace(self, X=X, y=y, how={**self.how, "epochs": 1})


class Learned(Protocol):
    """An arm that can answer."""

    @property
    def parameters(self) -> int:
        """Numbers that it holds."""

    @property
    def steps(self) -> int:
        """Of its training."""

    @property
    def seconds(self) -> float:
        """That training took."""

    @property
    def pace(self) -> float:
        """Seconds of a usual step."""

    @property
    def losses(self) -> tuple[float, ...]:
        """Of each epoch."""

    def answer(self, X: Sequence[Any]) -> list[Any]:
        """An answer for each row, as JSON holds it."""

    def keep(self, folder: Path) -> int:
        """Write what ``recall`` of its way reads; gives the bytes of what somebody would ship."""

    def flops(self, X: Sequence[Any]) -> int | None:
        """Forward operations of a row of mean length, by the spec; ``None`` where there is none."""


class Way(Protocol):
    """One way."""

    @property
    def note(self) -> str:
        """What it is, in words."""

    @property
    def seeded(self) -> bool:
        """Whether chance has a part in it."""

    def check(self, kind: str) -> None:
        """See that it can do tasks of this kind.

        Raises:
            UsageError: it cannot.
        """

    def steps(self, rows: int, how: Mapping[str, Any]) -> int:
        """Units of progress of a whole cell."""

    def learn(self, lesson: Lesson, watch: Watch | None = None) -> Learned:
        """Learn; ``watch`` is told of every step."""

    def recall(self, folder: Path) -> Predict:
        """What :meth:`Learned.keep` wrote, ready to answer."""
