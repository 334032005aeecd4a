"""Tags of words: the one that a word had most often, and a linear model of the word and its neighbours."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from variorum.tasks.tag import matched, sentences_of

AROUND = (-2, -1, 0, 1, 2)
"""The words that are looked at, from the one that is tagged."""


@dataclass
class FrequentTags:
    """The tag that a word had most often; of a word that was never seen, the tag of most words."""

    name: ClassVar[str] = "most frequent tag of the word"
    tags_: dict[str, str] = field(init=False, repr=False)
    usual_: str = field(init=False)

    def fit(self, X: Sequence[Any], y: Sequence[Any]) -> Self:
        """Learn from sentences and the tags of their words."""
        seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for words, tags in _sentences(X, y):
            for word, tag in zip(words, tags, strict=True):
                seen[word][tag] += 1
        self.tags_ = {word: _first(counts) for word, counts in seen.items()}
        self.usual_ = _first(sum(seen.values(), Counter()))
        return self

    def predict(self, X: Sequence[Any]) -> list[list[str]]:
        """The tags of each sentence's words."""
        return (
            [[self.tags_.get(word, self.usual_) for word in one.strings()] for one in sentences_of(X)] if len(X) else []
        )


@dataclass
class LinearTags:
    """A linear support vector machine on the word, its shape, its ends, and the same of its neighbours."""

    name: ClassVar[str] = "linear tagger"
    features_: Any = field(init=False, repr=False)
    model_: Any = field(init=False, repr=False)

    def fit(self, X: Sequence[Any], y: Sequence[Any]) -> Self:
        """Learn from sentences and the tags of their words."""
        from sklearn.dummy import DummyClassifier
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.svm import LinearSVC

        rows = list(_sentences(X, y))
        told = [tag for _, tags in rows for tag in tags]
        self.features_ = CountVectorizer(analyzer=_as_it_is, binary=True)
        found = self.features_.fit_transform([one for words, _ in rows for one in _described(words)])
        learner = LinearSVC(random_state=0) if len(set(told)) > 1 else DummyClassifier(strategy="most_frequent")
        self.model_ = learner.fit(found, told)
        return self

    def predict(self, X: Sequence[Any]) -> list[list[str]]:
        """The tags of each sentence's words."""
        return [self._tags(one.strings()) for one in sentences_of(X)] if len(X) else []

    def _tags(self, words: Sequence[str]) -> list[str]:
        if not words:
            return []
        found: list[str] = self.model_.predict(self.features_.transform(_described(words))).tolist()
        return found


def _sentences(X: Sequence[Any], y: Sequence[Any]) -> Iterator[tuple[list[str], list[str]]]:
    sentences, tags = matched(X, y)
    for sentence, told in zip(sentences, tags, strict=True):
        yield list(sentence.strings()), told


def _first(counts: Counter[str]) -> str:
    """The most frequent one; of several, the first by name."""
    return min(counts, key=lambda tag: (-counts[tag], tag))


def _as_it_is(features: list[str]) -> list[str]:
    return features


def _described(words: Sequence[str]) -> list[list[str]]:
    """What is known of each word: features that hold."""
    alone = [
        {f"word {word.lower()}", f"shape {_shape(word)}", f"end {word[-3:].lower()}", f"begin {word[:3].lower()}"}
        for word in words
    ]
    made = []
    for place in range(len(words)):
        held = ["any"]
        for step in AROUND:
            there = place + step
            known = alone[there] if 0 <= there < len(words) else {"edge"}
            held += [f"{step} {one}" for one in sorted(known)]
        made.append(held)
    return made


def _shape(word: str) -> str:
    """Capitals, small letters, digits and signs, each run of them once: ``McBain-3`` is ``AaAa-9``."""
    kinds = ["A" if c.isupper() else "a" if c.isalpha() else "9" if c.isdigit() else c for c in word]
    return "".join(kind for i, kind in enumerate(kinds) if not i or kinds[i - 1] != kind)
