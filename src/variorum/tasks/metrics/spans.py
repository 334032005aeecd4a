"""Precision, recall and F1 of spans found in tagged sentences, by type, and the share of right tags.

A span counts as found only with exactly its words and its type. What a scheme does not allow is read as the mode says,
see :mod:`variorum.tasks.schemes`; every report names both, because the same tags score differently under another.
Counts are kept by sentence, so that scores of any sample of sentences add up from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from variorum.errors import UsageError
from variorum.tasks.schemes import Mode, Scheme

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]
    Floats = NDArray[np.float64]

Sentences = Sequence[Sequence[str]]


class Score(NamedTuple):
    """``support`` spans were there, ``predicted`` were said to be. Of nothing, precision, recall and F1 are 0."""

    precision: float
    recall: float
    f1: float
    support: int
    predicted: int


@dataclass(frozen=True, kw_only=True)
class SpanReport:
    """How well spans were found.

    Attributes:
        scheme, mode: how tags were read.
        types: the score of each type, in order of their names.
        micro: of all spans together. macro: the mean over the types.
        tags_right: the share of words with the right tag, ``O`` included.
    """

    scheme: str
    mode: Mode
    types: dict[str, Score]
    micro: Score
    macro: Score
    tags_right: float


def count(truth: Sentences, predicted: Sentences, scheme: Scheme, mode: Mode) -> tuple[tuple[str, ...], Counts]:
    """The types in order, and for each sentence and type the spans found, predicted and there, [sentences, types, 3].

    Raises:
        UsageError: sentences that do not match, or a tag of another scheme.
    """
    import numpy as np

    matching(truth, predicted)
    there = [set(scheme.spans(tags, mode)) for tags in truth]
    said = [set(scheme.spans(tags, mode)) for tags in predicted]
    types = tuple(sorted({span.type for spans in (*there, *said) for span in spans}))
    place = {type_: at for at, type_ in enumerate(types)}
    counts = np.zeros((len(truth), len(types), 3), dtype=np.int64)
    for row, (right, guessed) in enumerate(zip(there, said, strict=True)):
        for column, spans in enumerate((right & guessed, guessed, right)):
            for span in spans:
                counts[row, place[span.type], column] += 1
    return types, counts


def f1(counts: Counts) -> Floats:
    """F1 of (found, predicted, there) counts, [..., 3] -> [...]; 0 where there is nothing."""
    import numpy as np

    return np.asarray(2 * counts[..., 0] / np.maximum(1, counts[..., 1] + counts[..., 2]))


def report(truth: Sentences, predicted: Sentences, scheme: Scheme, mode: Mode = "strict") -> SpanReport:
    """Compare the tags of sentences.

    Raises:
        UsageError: as :func:`count`.
    """
    types, counts = count(truth, predicted, scheme, mode)
    scores = [_score(*map(int, one)) for one in counts.sum(0)]
    micro = _score(*map(int, counts.sum((0, 1))))
    share = 1 / max(1, len(scores))
    precision, recall, f1 = (sum(score[i] for score in scores) * share for i in range(3))
    return SpanReport(
        scheme=scheme.name,
        mode=mode,
        types=dict(zip(types, scores, strict=True)),
        micro=micro,
        macro=Score(precision, recall, f1, support=micro.support, predicted=micro.predicted),
        tags_right=tags_right(truth, predicted),
    )


def tags_right(truth: Sentences, predicted: Sentences) -> float:
    """The share of words with the right tag."""
    words = sum(map(len, truth))
    right = sum(a == b for t, p in zip(truth, predicted, strict=True) for a, b in zip(t, p, strict=True))
    return right / max(1, words)


def matching(truth: Sentences, predicted: Sentences) -> None:
    """Raises :class:`UsageError` unless both have the same sentences of the same lengths."""
    if len(truth) != len(predicted):
        raise UsageError(f"{len(truth)} sentences, and tags of {len(predicted)}", where="spans")
    for number, (right, said) in enumerate(zip(truth, predicted, strict=True), 1):
        if len(right) != len(said):
            raise UsageError(f"{len(right)} words, and {len(said)} tags", where=f"sentence {number}")


def _score(found: int, predicted: int, support: int) -> Score:
    return Score(
        precision=found / max(1, predicted),
        recall=found / max(1, support),
        f1=2 * found / max(1, predicted + support),
        support=support,
        predicted=predicted,
    )
