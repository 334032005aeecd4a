"""What a fitted task made of rows whose answers are known: all that a report shows of one model, whatever its kind.

Every task fills it in itself (:meth:`~variorum.tasks.estimator.Estimator.examined`); what several kinds do alike, such
as to choose between classes or to say a number, is here too. How it is shown is the matter of
:mod:`variorum.tasks.report`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from variorum.face import Model
    from variorum.tasks.metrics.intervals import Figure
    from variorum.tasks.targets import Targets

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]
    Counts = NDArray[np.int64]

NOTHING = "(nothing)"
"""What stands for a label that is missing or too many, where a row may have several."""
PARTS = 3
"""Parts that rows are cut into by a number: the lowest third, the middle one, the highest."""


@dataclass(frozen=True, kw_only=True)
class Read:
    """The rows as they were read.

    Attributes:
        texts: as people read them [N]. tokens: of each whole text [N]. limit: those that a model reads at once.
        windows: whether a longer text is read in several windows; it is cut otherwise.
    """

    texts: Sequence[str]
    tokens: Sequence[int]
    limit: int
    windows: bool = False

    @classmethod
    def by(cls, model: Model, inputs: Sequence[Any], limit: int, *, windows: bool = False) -> Read:
        """What ``model`` reads of texts, or of pairs of them."""
        from variorum.inference.encode import tokenizer_of

        tokens = [len(one.ids) for one in tokenizer_of(model).encode_batch(inputs)]
        return cls(texts=[plainly(one) for one in inputs], tokens=tokens, limit=limit, windows=windows)


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """An answer that is not right.

    Attributes:
        row: that it is in, from 0 on. text: what was asked. truth, answer: as people read them.
        by: how far it is from right, the more the worse. note: the same in words.
        confidence: with which it was given, where answers have one.
    """

    row: int
    text: str
    truth: str
    answer: str
    by: float
    note: str = ""
    confidence: float | None = None


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """What can be found: classes of rows, types of spans; ``counts`` [N, kinds, 3] found, said and there, by row."""

    called: str
    names: tuple[str, ...]
    counts: Counts


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """What is taken for what: ``counts`` [truth, answer] of so many ``units``."""

    names: tuple[str, ...]
    counts: Counts
    units: str = "rows"


@dataclass(frozen=True, kw_only=True)
class Belief:
    """What a model said, and what was so, [M]: how sure it was, and whether it was right; or a number and the truth."""

    said: Floats
    so: Floats
    axes: tuple[str, str] = ("confidence", "share right")

    @property
    def share(self) -> bool:
        """Whether what was so is 0 or 1."""
        return bool(np.isin(self.so, (0, 1)).all()) and self.axes[0] == "confidence"


@dataclass(frozen=True, kw_only=True)
class Examined:
    """One model on N rows.

    Attributes:
        figures: that can be drawn again over rows, the most important one first.
        each, measure: a number for each row [N], and what it is; its mean is shown of slices.
        mistakes: all of them, in any order.
        groups: of rows by name, a value each [N], that only the task knows.
    """

    read: Read
    figures: Mapping[str, Figure]
    each: Floats
    measure: str
    mistakes: Sequence[Mistake]
    kinds: Kinds | None = None
    confusion: Confusion | None = None
    belief: Belief | None = None
    groups: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Choices:
    """M choices of one class, or of any of several: one for each row, or for each of its words.

    Attributes:
        names: of the classes, those that were not learned last.
        truth, given: which are right, and which were said, [M, classes].
        words: truth and answer as people read them, [M] both.
        confidence, of_truth: how probable what was said and what is right were held to be, [M], where that is known.
        rows, units, texts: the row that each choice is in [M], what is chosen for, and what stands around it [M], where
            that is not the row itself.
    """

    names: tuple[str, ...]
    truth: Bools
    given: Bools
    words: tuple[Sequence[Any], Sequence[Any]]
    confidence: Floats | None = None
    of_truth: Floats | None = None
    rows: Sequence[int] | None = None
    units: str = "rows"
    texts: Sequence[str] | None = None

    @classmethod
    def of(
        cls, targets: Targets, right: Sequence[Any], given: Sequence[Any], probabilities: Floats | None = None
    ) -> Choices:  # fmt: skip
        """Those between the classes of ``targets``; each class has a probability [M, classes] where that is known."""
        both = np.array([*right, *given], dtype=object)
        names, matrix = tuple(map(str, targets.places(both))), targets.matrix(both)
        truth, said = matrix[: len(right)], matrix[len(right) :]
        if probabilities is None:
            return cls(names=names, truth=truth, given=said, words=(right, given))
        wide = np.pad(probabilities, ((0, 0), (0, len(names) - probabilities.shape[1])))
        sure, held = (targets.confidence(wide, one) for one in (said, truth))
        return cls(names=names, truth=truth, given=said, words=(right, given), confidence=sure, of_truth=held)


def of_classes(read: Read, figures: Mapping[str, Figure], said: Choices) -> Examined:
    """Rows, or their words, that classes are chosen for."""
    right = (said.truth == said.given).all(-1)
    rows = np.arange(len(right)) if said.rows is None else np.asarray(said.rows, dtype=int)
    texts = said.texts or [read.texts[row] for row in rows.tolist()]
    held = said.of_truth if said.of_truth is not None else np.zeros(len(right))
    mistakes = [
        Mistake(row=int(rows[at]), text=texts[at], truth=str(said.words[0][at]),
                answer=str(said.words[1][at]), by=float(1 - held[at]),
                note="" if said.of_truth is None else f"the truth was given {held[at]:.1%}",
                confidence=None if said.confidence is None else float(said.confidence[at]))
        for at in np.flatnonzero(~right).tolist()
    ]  # fmt: skip
    total = np.bincount(rows, minlength=len(read.texts))
    counts = np.zeros((len(total), len(said.names), 3), dtype=np.int64)
    np.add.at(counts, rows, np.stack((said.truth & said.given, said.given, said.truth), -1))
    return Examined(
        read=read, figures=figures, each=1 - np.bincount(rows, ~right, len(total)) / np.maximum(1, total),
        measure="accuracy", mistakes=mistakes, kinds=Kinds(called="class", names=said.names, counts=counts),
        confusion=taken_for(said.names, said.truth, said.given, said.units),
        belief=None if said.confidence is None else Belief(said=said.confidence, so=right.astype(float)),
    )  # fmt: skip


def of_numbers(read: Read, figures: Mapping[str, Figure], found: Floats, right: Floats, name: str) -> Examined:
    """Rows that a number is said for, called ``name``."""
    away = found - right
    mistakes = [
        Mistake(row=row, text=read.texts[row], truth=f"{right[row]:.4g}", answer=f"{found[row]:.4g}",
                by=abs(away[row]), note=f"off by {away[row]:+.3g}")
        for row in np.flatnonzero(away).tolist()
    ]  # fmt: skip
    return Examined(
        read=read, figures=figures, each=np.abs(away), measure="absolute error", mistakes=mistakes,
        belief=Belief(said=found, so=right, axes=("predicted", "true")), groups={name: thirds(right)},
    )  # fmt: skip


def taken_for(names: Sequence[str], truth: Bools, given: Bools, units: str = "rows") -> Confusion:
    """What is taken for what; where several may stand together, each that is missing for each that is too many."""
    missing, added = truth & ~given, given & ~truth
    counts = np.diag((truth & given).sum(0)) + missing.T.astype(int) @ added
    lost, spare = missing[~added.any(-1)].sum(0), added[~missing.any(-1)].sum(0)
    if not (lost.any() or spare.any()):
        return Confusion(names=tuple(names), counts=counts, units=units)
    whole = np.block([[counts, lost[:, None]], [spare[None], np.zeros((1, 1), dtype=int)]])
    return Confusion(names=(*names, NOTHING), counts=whole, units=units)


def thirds(values: Sequence[float] | Floats, unit: str = "") -> list[str]:
    """Each value's third among all of them, named by its bounds."""
    known = np.asarray(values, dtype=float)
    ends = np.quantile(known, np.arange(1, PARTS) / PARTS, method="inverted_cdf")
    places = np.searchsorted(ends, known, side="left")
    names = {part: f"{mine.min():g} to {mine.max():g}{unit}" for part in set(places.tolist())
             for mine in [known[places == part]]}  # fmt: skip
    return [names[part] for part in places.tolist()]


def plainly(text: str | Sequence[str]) -> str:
    """A text, or the texts of one row in a line."""
    return text if isinstance(text, str) else " ⁄ ".join(text)
