"""Answers by the words that question and context share: what stands nearest to the rare ones among them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any, ClassVar, Self

from variorum.tasks.metrics.squad import f1
from variorum.tasks.questions import Answers
from variorum.text.sentence_ends import sentence_starts

_WORD = re.compile(r"\w+(?:[-'’.,]\w+)*")
LONGEST = 5
"""Words of an answer, if its run is longer."""
QUANTILES = 20
"""Thresholds that are tried for saying that there is no answer."""


@dataclass
class Overlap:
    """The sentence that shares most with the question, and in it the run of other words beside what is shared.

    Rare words count for more. Where the data has questions without an answer, none is given below a share that is
    chosen on it.
    """

    name: ClassVar[str] = "keyword overlap"
    rare_: dict[str, float] = field(init=False, repr=False)
    unseen_: float = field(init=False)
    least_: float = field(init=False)

    def fit(self, X: Sequence[tuple[str, str]], y: Sequence[Any]) -> Self:
        """Learn how rare words are, and from which overlap on there is an answer.

        Args:
            X: pairs of a question and its context.
            y: the answers, as :meth:`variorum.tasks.questions.Answers.of` takes them.
        """
        contexts = {context: set(_words(context)) for _, context in X}
        count: dict[str, int] = {}
        for words in contexts.values():
            for word in words:
                count[word] = count.get(word, 0) + 1
        self.unseen_ = log(1 + len(contexts))
        self.rare_ = {word: log((1 + len(contexts)) / (1 + held)) for word, held in count.items()}
        self.least_ = self._tuned([self._found(*pair) for pair in X], [Answers.of(one) for one in y])
        return self

    def predict(self, X: Sequence[tuple[str, str]]) -> list[str]:
        """The answer to each question, empty for none."""
        return [answer if share >= self.least_ else "" for answer, share in (self._found(*pair) for pair in X)]

    def _tuned(self, found: Sequence[tuple[str, float]], right: Sequence[Answers]) -> float:
        if all(one.texts for one in right):
            return 0.0
        shares = sorted(share for _, share in found)
        tried = [0.0, *(shares[len(shares) * i // QUANTILES] for i in range(1, QUANTILES)), shares[-1] + 1.0]
        gains = [
            (share, max(f1(answer, text) for text in one.texts) if one.texts else 0.0, float(not one.texts))
            for (answer, share), one in zip(found, right, strict=True)
        ]
        return max(tried, key=lambda least: sum(given if share >= least else none for share, given, none in gains))

    def _found(self, question: str, context: str) -> tuple[str, float]:
        """The answer, and the share of the question's weight that its sentence holds."""
        asked = set(_words(question))
        whole = sum(self._weight(word) for word in asked) or 1.0
        starts = sentence_starts(context)
        sentences = [context[a:b] for a, b in zip(starts, [*starts[1:], len(context)], strict=True)]
        shared = [sum(self._weight(word) for word in asked & set(_words(one))) for one in sentences]
        best = max(range(len(sentences)), key=lambda i: (shared[i], -i))
        return self._run(sentences[best], asked), shared[best] / whole

    def _run(self, sentence: str, asked: set[str]) -> str:
        """The run of words that are not asked for with the rarest words in it, without common ones at its ends."""
        runs: list[list[re.Match[str]]] = [[]]
        for word in _WORD.finditer(sentence):
            if word[0].lower() in asked:
                runs.append([])
            else:
                runs[-1].append(word)
        parts = [run[i : i + LONGEST] for run in runs for i in range(max(1, len(run) - LONGEST + 1)) if run]
        if not parts:
            return ""
        best = max(parts, key=lambda run: sum(self._weight(word[0].lower()) for word in run))
        rare = max(self._weight(word[0].lower()) for word in best) / 2
        kept = [word for word in best if self._weight(word[0].lower()) >= rare]
        return sentence[kept[0].start() : kept[-1].end()]

    def _weight(self, word: str) -> float:
        return self.rare_.get(word, self.unseen_)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
