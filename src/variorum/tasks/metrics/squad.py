"""Exact match and F1 of answers, as the official scripts of SQuAD 1.1 and 2.0 count them (Rajpurkar et al. 2016, 2018).

Answers are compared without case, punctuation, English articles and runs of spaces; of several right answers the best
match counts. A question without an answer is right only with the empty one. Figures are shares from 0 to 1.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from variorum.errors import UsageError

Version = Literal["1.1", "2.0"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Mean(NamedTuple):
    """Means over ``questions`` questions; of none, 0."""

    exact: float
    f1: float
    questions: int


@dataclass(frozen=True, kw_only=True)
class AnswerReport:
    """How well questions were answered: all, those with an answer, and those without (2.0 only)."""

    version: Version
    all: Mean
    answerable: Mean
    unanswerable: Mean


def normalise(text: str) -> str:
    """``text`` as answers are compared: lower case, no punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact(answer: str, right: str) -> float:
    """1 if both read the same, normalised."""
    return float(normalise(answer) == normalise(right))


def f1(answer: str, right: str, version: Version = "2.0") -> float:
    """The F1 of the words that both share, each as often as it stands in both.

    Where an answer has no words, 2.0 gives 1 if the other has none either; 1.1 always gives 0.
    """
    said, there = normalise(answer).split(), normalise(right).split()
    if version == "2.0" and not (said and there):
        return float(said == there)
    shared = sum((Counter(said) & Counter(there)).values())
    return 2 * shared / (len(said) + len(there)) if shared else 0.0


def scores(
    answers: Sequence[str], right: Sequence[Sequence[str]], version: Version = "2.0"
) -> tuple[list[float], list[float]]:
    """Exact match and F1 of each question.

    Args:
        answers: one for each question, empty for none.
        right: all right answers of each question; in 2.0 none for a question without an answer.

    Raises:
        UsageError: not one answer for each question, or a question of 1.1 without a right answer.
    """
    if len(answers) != len(right):
        raise UsageError(f"{len(answers)} answers to {len(right)} questions", where="squad")
    matches, overlaps = [], []
    for number, (answer, known) in enumerate(zip(answers, right, strict=True), 1):
        if version == "2.0":
            known = [one for one in known if normalise(one)] or [""]
        elif not known:
            raise UsageError("no right answer", where=f"question {number}", remedy="score it by the rules of 2.0")
        matches.append(max(exact(answer, one) for one in known))
        overlaps.append(max(f1(answer, one, version) for one in known))
    return matches, overlaps


def report(answers: Sequence[str], right: Sequence[Sequence[str]], version: Version = "2.0") -> AnswerReport:
    """Compare answers; arguments and errors as for :func:`scores`."""
    pairs = list(zip(*scores(answers, right, version), strict=True))
    has = [bool(one) for one in right]
    return AnswerReport(
        version=version,
        all=_mean(pairs),
        answerable=_mean([pair for pair, there in zip(pairs, has, strict=True) if there]),
        unanswerable=_mean([pair for pair, there in zip(pairs, has, strict=True) if not there]),
    )


def best_threshold(
    none_scores: Sequence[float], quality: Sequence[float], answerable: Sequence[bool], silent: Sequence[bool]
) -> tuple[float, float]:
    """The best mean quality when questions with a score of no answer above a threshold get none, and that threshold.

    The search is that of the official script for 2.0: questions are answered in the order of their scores, at first
    none, and the first of equally good thresholds is taken; 0 where it is best to answer none.

    Args:
        none_scores: how sure it is that there is no answer, [questions].
        quality: exact match or F1 of the answer that would be given.
        answerable: whether there is an answer.
        silent: whether the answer that would be given is empty.
    """
    current = best = float(sum(not one for one in answerable))
    threshold = 0.0
    for at in sorted(range(len(none_scores)), key=lambda i: none_scores[i]):
        current += quality[at] if answerable[at] else (0.0 if silent[at] else -1.0)
        if current > best:
            best, threshold = current, none_scores[at]
    return best / max(1, len(none_scores)), threshold


def _mean(pairs: Sequence[tuple[float, float]]) -> Mean:
    n = max(1, len(pairs))
    return Mean(sum(match for match, _ in pairs) / n, sum(overlap for _, overlap in pairs) / n, len(pairs))
