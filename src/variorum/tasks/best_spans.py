"""The best stretches of a context, from what a head says of its windows: each begins before it ends, and is not long.

All pairs of a beginning and an end are compared, not the likeliest few of each, so the best one is the best there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from variorum.tasks.contexts import Context
from variorum.tasks.token_scores import by_text, readings
from variorum.tasks.windows import View

if TYPE_CHECKING:
    from variorum.face import Model
    from variorum.parts.spans import Answers


class Candidate(NamedTuple):
    """Tokens ``first`` to ``last`` of the context, both included, and how much speaks for them (a logarithm)."""

    score: float
    first: int
    last: int


@dataclass(frozen=True)
class Said:
    """What was said of a whole context.

    Attributes:
        candidates: the best stretches, best first, none twice.
        none: the probability that there is no answer; 1 where there is no candidate.
    """

    candidates: tuple[Candidate, ...]
    none: float


@dataclass(frozen=True, kw_only=True)
class Search:
    """How stretches are looked for: at most ``longest`` tokens long, and the ``count`` best."""

    longest: int = 30
    count: int = 20


class Window(NamedTuple):
    """What was said of one window: its candidates, and the score of there being no answer, by which rule."""

    candidates: list[Candidate]
    none: float
    apart: bool


def read(model: Model, contexts: Sequence[Context], search: Search) -> list[Said]:
    """What ``model`` says of each context."""
    windows = [window for context in contexts for window in zip(context.shown, context.nothing, strict=True)]
    found = dict(_windows(model, windows, search))
    numbers = iter(range(len(windows)))
    return [_merged([found[next(numbers)] for _ in context.shown], search) for context in contexts]


def _windows(model: Model, windows: Sequence[tuple[View, int]], search: Search) -> Iterator[tuple[int, Window]]:
    """The number of each window and what was said of it, in the order in which they are read."""
    encodings = [view.encoding for view, _ in windows]
    apart = model.head_names[0] == "answer_span"
    for numbers, out in readings(model, encodings, padded=apart):
        if apart:
            for row, number in enumerate(numbers):
                yield number, _of_answers(out.answers, row, windows[number][0], search)
        else:
            for number, scores in zip(numbers, by_text(out, [encodings[i] for i in numbers]), strict=True):
                yield number, _of_logits(scores.numpy(), *windows[number], search)


def _of_logits(scores: Any, view: View, nothing: int, search: Search) -> Window:
    """Scores [T, 2] of beginnings and ends."""
    count = view.tokens[1] - view.tokens[0]
    starts, ends = scores[view.at : view.at + count].T
    none = float(scores[nothing].sum())
    sums = [starts[: count - more] + ends[more:] for more in range(min(search.longest, count))]
    if not sums:
        return Window([], none, apart=False)
    flat, firsts = np.concatenate(sums), np.concatenate([np.arange(len(one)) for one in sums])
    lasts = firsts + np.repeat(np.arange(len(sums)), [len(one) for one in sums])
    best = np.argsort(-flat, kind="stable")[: search.count]
    base = view.tokens[0]
    return Window([Candidate(float(flat[i]), base + int(firsts[i]), base + int(lasts[i])) for i in best], none, False)


def _of_answers(answers: Answers | None, row: int, view: View, search: Search) -> Window:
    """The likeliest beginnings with the likeliest ends of each, of a head that chooses the end for the start."""
    assert answers is not None
    base, (begin, end) = view.at - view.tokens[0], view.tokens
    found = []
    for i, start in enumerate(answers.starts[row].tolist()):
        for j, stop in enumerate(answers.ends[row, i].tolist()):
            first, last = start - base, stop - base
            if begin <= first <= last < min(end, first + search.longest):
                chance = answers.start_scores[row, i] * answers.end_scores[row, i, j]
                found.append(Candidate(float(chance.clamp(min=1e-30).log()), first, last))
    return Window(sorted(found, reverse=True)[: search.count], float(answers.no_answer[row]), apart=True)


def _merged(windows: Sequence[Window], search: Search) -> Said:
    """The best of all windows; that there is no answer counts as little as the window says where it is least."""
    best: dict[tuple[int, int], float] = {}
    for window in windows:
        for score, first, last in window.candidates:
            best[first, last] = max(score, best.get((first, last), -np.inf))
    ordered = sorted(
        (Candidate(score, *tokens) for tokens, score in best.items()), key=lambda one: (-one.score, one[1:])
    )
    if not ordered:
        return Said((), 1.0)
    least = min(window.none for window in windows)
    margin = least if windows[0].apart else least - ordered[0].score
    return Said(tuple(ordered[: search.count]), float(1 / (1 + np.exp(-np.clip(margin, -500, 500)))))
