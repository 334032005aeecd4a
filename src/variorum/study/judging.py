"""How answers are judged, one judge for each kind of task: its figure, which items it misses, and how it says them.

Answers stand as JSON holds them. A figure says what it is of any sample of items, so the jackknife of every one is the
same: each group of items left out in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from variorum.errors import UsageError
from variorum.study.design import Metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from variorum.tasks.metrics.intervals import Figure
    from variorum.tasks.schemes import Scheme

    Answers = Sequence[Any]
    Judged = Callable[[Sequence[Any], Sequence[Any]], tuple["Judge", list[Any]]]

MACRO_F1 = Metric(name="macro-F1", unit="points", lower_is_better=False, by_item=False, scale=100, digits=1)


class Judge(Protocol):
    """Compares answers with what is right for the same items."""

    @property
    def metric(self) -> Metric:
        """What is measured."""

    def figure(self, answers: Answers, right: Answers) -> Figure:
        """The metric of any sample of the items."""

    def missed(self, answers: Answers, right: Answers) -> NDArray[np.bool_]:
        """Which items are answered wrongly, [items]."""

    def parts(self, answers: Answers, right: Answers) -> Mapping[str, float]:
        """The F1 of each class, where there are classes."""

    def said(self, answer: Any) -> str:
        """An answer for people."""


@dataclass(frozen=True)
class Classes:
    """One class an item, by its number among ``names``: macro-F1."""

    names: tuple[str, ...]
    metric: ClassVar[Metric] = MACRO_F1

    def figure(self, answers: Answers, right: Answers) -> Figure:
        from variorum.tasks.metrics.classes import macro_f1_of

        return macro_f1_of(self._matrix(answers), self._matrix(right))

    def missed(self, answers: Answers, right: Answers) -> NDArray[np.bool_]:
        import numpy as np

        return np.asarray(answers) != np.asarray(right)

    def parts(self, answers: Answers, right: Answers) -> Mapping[str, float]:
        from variorum.tasks.metrics.classes import indicated_f1

        found = indicated_f1(self._matrix(answers), self._matrix(right))
        return dict(zip(self.names, found.tolist(), strict=True))

    def said(self, answer: Any) -> str:
        return self.names[int(answer)]

    def _matrix(self, ids: Answers) -> NDArray[np.bool_]:
        """Which class each item is of, [items, classes]."""
        import numpy as np

        return np.asarray(np.asarray(ids, dtype=np.int64)[:, None] == np.arange(len(self.names)))


class _Alike:
    """What most judges say: an answer is missed that is not the right one, and there are no classes."""

    def missed(self, answers: Answers, right: Answers) -> NDArray[np.bool_]:
        import numpy as np

        return np.array([one != other for one, other in zip(answers, right, strict=True)])

    def parts(self, answers: Answers, right: Answers) -> Mapping[str, float]:
        return {}

    def said(self, answer: Any) -> str:
        return str(answer)


@dataclass(frozen=True)
class Numbers(_Alike):
    """A number an item: rank correlation. Missed is what lies further off than numbers deviate from their mean."""

    metric: ClassVar[Metric] = Metric(
        name="rank correlation", unit="points", lower_is_better=False, by_item=False, scale=100, digits=1
    )

    def figure(self, answers: Answers, right: Answers) -> Figure:
        import numpy as np

        from variorum.tasks.metrics.correlation import spearman_of

        ranks = spearman_of(np.asarray(answers, dtype=float), np.asarray(right, dtype=float))

        def figure(counts: NDArray[np.int64]) -> NDArray[np.float64]:
            with np.errstate(invalid="ignore", divide="ignore"):
                return np.nan_to_num(ranks(counts))  # one answer to everything says nothing

        return figure

    def missed(self, answers: Answers, right: Answers) -> NDArray[np.bool_]:
        import numpy as np

        return np.asarray(np.abs(np.subtract(answers, right)) > np.std(right))

    def said(self, answer: Any) -> str:
        return f"{answer:.3g}"


@dataclass(frozen=True)
class Tags:
    """A tag a word: F1 of the spans that ``scheme`` spells with them, or the share of right tags where it is none."""

    scheme: Scheme | None

    @property
    def metric(self) -> Metric:
        name = "share of right tags" if self.scheme is None else "F1 of spans"
        return Metric(name=name, unit="points", lower_is_better=False, by_item=False, scale=100, digits=1)

    def figure(self, answers: Answers, right: Answers) -> Figure:
        from variorum.tasks.metrics import spans
        from variorum.tasks.metrics.intervals import ratio_of

        if self.scheme is None:
            hits = [sum(a == b for a, b in zip(*rows, strict=True)) for rows in zip(answers, right, strict=True)]
            return ratio_of(hits, [len(row) for row in right])
        each = spans.count(right, answers, self.scheme, "strict")[1].sum(1)
        return lambda counts: spans.f1(counts @ each)

    def missed(self, answers: Answers, right: Answers) -> NDArray[np.bool_]:
        import numpy as np

        return np.array([list(a) != list(b) for a, b in zip(answers, right, strict=True)])

    def parts(self, answers: Answers, right: Answers) -> Mapping[str, float]:
        from variorum.tasks.metrics import spans

        if self.scheme is None:
            return {}
        return {name: one.f1 for name, one in spans.report(right, answers, self.scheme).types.items() if one.support}

    def said(self, answer: Any) -> str:
        return " ".join(answer)


@dataclass(frozen=True)
class Found(_Alike):
    """An answer to a question, empty for none: mean F1 of its words, as SQuAD 2.0 counts it."""

    metric: ClassVar[Metric] = Metric(
        name="F1 of words", unit="points", lower_is_better=False, by_item=False, scale=100, digits=1
    )

    def figure(self, answers: Answers, right: Answers) -> Figure:
        from variorum.tasks.metrics.intervals import mean_of

        return mean_of(self._scores(answers, right)[1])

    def missed(self, answers: Answers, right: Answers) -> NDArray[np.bool_]:
        import numpy as np

        return np.array(self._scores(answers, right)[0]) < 1

    def said(self, answer: Any) -> str:
        return str(answer) or "no answer"

    def _scores(self, answers: Answers, right: Answers) -> tuple[list[float], list[float]]:
        from variorum.tasks.metrics import squad
        from variorum.tasks.questions import Answers as Known

        return squad.scores(answers, [Known.of(one).texts for one in right])


@dataclass(frozen=True)
class Texts(_Alike):
    """A text that is written for another: chrF."""

    metric: ClassVar[Metric] = Metric(name="chrF", unit="points", lower_is_better=False, by_item=False, digits=1)

    def figure(self, answers: Answers, right: Answers) -> Figure:
        from variorum.tasks.metrics.text import chrf_of

        return chrf_of(answers, right)


@dataclass(frozen=True)
class Partners(_Alike):
    """The text that another one finds, among those of all rows: how often it is its own."""

    metric: ClassVar[Metric] = Metric(
        name="recall at 1", unit="points", lower_is_better=False, by_item=False, scale=100, digits=1
    )

    def figure(self, answers: Answers, right: Answers) -> Figure:
        from variorum.tasks.metrics.intervals import mean_of

        return mean_of(~self.missed(answers, right))


def judged(kind: str, X: Sequence[Any], y: Sequence[Any]) -> tuple[Judge, list[Any]]:
    """The judge of a kind of task, and what is right for each row in the form that it compares.

    Raises:
        UsageError: nothing judges this kind, or there is only one class.
    """
    if kind not in JUDGES:
        raise UsageError(f"a bake-off of {kind!r} cannot be judged", remedy=f"one of {', '.join(JUDGES)}")
    return JUDGES[kind](X, y)


def _classes(X: Sequence[Any], y: Sequence[Any]) -> tuple[Judge, list[Any]]:
    from variorum.tasks.labels import LabelSet

    names = LabelSet.of(y)
    if len(names) < 2:
        raise UsageError(f"every row has the label {names.names[0]!r:.40}", remedy="give rows of another class too")
    return Classes(names.names), names.ids(y)


def _numbers(X: Sequence[Any], y: Sequence[Any]) -> tuple[Judge, list[Any]]:
    return Numbers(), [float(value) for value in y]


def _tags(X: Sequence[Any], y: Sequence[Any]) -> tuple[Judge, list[Any]]:
    from variorum.tasks.schemes import scheme_of
    from variorum.tasks.tag import matched

    tags = matched(X, y)[1]
    return Tags(scheme_of(tags)), tags


def _partners(X: Sequence[Any], y: Sequence[Any]) -> tuple[Judge, list[Any]]:
    return Partners(), [second for _, second in X]


def _as_given(judge: Judge) -> Judged:
    return lambda X, y: (judge, list(y))


JUDGES: Mapping[str, Judged] = {
    "classify": _classes, "pairs": _classes, "number": _numbers, "pairs-number": _numbers, "tag": _tags,
    "embed": _partners, "embed-score": _numbers, "answer": _as_given(Found()), "seq2seq": _as_given(Texts()),
}  # fmt: skip
