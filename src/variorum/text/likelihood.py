"""WordPiece as its paper learns it: merge the pair whose joining makes the corpus most likely, not the most frequent.

A pair scores count(ab) / (count(a) · count(b)) (Schuster & Nakajima 2012): by how much more often the two stand
together than they would by chance. Counts of pairs and symbols are kept up to date word by word, so a merge costs what
it changes, and the best pair is found in one pass over arrays. It knows words and their frequencies, no files.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

CONTINUES = "##"
_SHIFT = 32  # a pair of ids as one number


def symbols_of(word: str) -> list[str]:
    """The characters of a word, every one but the first marked as continuing it."""
    return [word[0], *(f"{CONTINUES}{char}" for char in word[1:])]


def alphabet(words: Iterable[str]) -> list[str]:
    """Every first character, then every continuing one, each in code point order."""
    first: set[str] = set()
    later: set[str] = set()
    for word in words:
        first.add(word[0])
        later.update(word[1:])
    return [*sorted(first), *(f"{CONTINUES}{char}" for char in sorted(later))]


def learn(words: Mapping[str, int], size: int, start: Sequence[str], *, min_count: int = 2) -> list[str]:
    """The vocabulary that merging by likelihood gives.

    Args:
        words: how often each word occurs.
        size: tokens to stop at; fewer if no pair is left to merge.
        start: the first tokens, all symbols of the words among them.
        min_count: pairs that occur less often stay apart. A pair of two characters that are found nowhere else has the
            highest score there is, were it seen but once; the paper's rule alone is 1.

    Returns:
        ``start``, then a token for each merge in the order in which they were made. Ties go to the more frequent pair,
        then to the pair whose tokens are older.
    """
    pairs = _Pairs(words, start, min_count)
    while len(pairs.tokens) < size and (best := pairs.best()) is not None:
        pairs.merge(*best)
    return pairs.tokens


class _Pairs:
    """The corpus as words of symbols, with the count of every symbol and of every pair of neighbours."""

    def __init__(self, words: Mapping[str, int], start: Sequence[str], min_count: int) -> None:
        self.tokens = list(start)
        self._ids = {token: id for id, token in enumerate(self.tokens)}
        self._words = [[self._ids[symbol] for symbol in symbols_of(word)] for word in words]
        self._frequency = list(words.values())
        self._min_count = min_count
        self._symbols: npt.NDArray[np.int64] = np.zeros(2 * len(self.tokens) + 64, dtype=np.int64)
        self._places: dict[int, int] = {}  # pair → its place in the arrays
        self._inside: list[set[int]] = []  # place → words that hold the pair
        self._keys: npt.NDArray[np.int64] = np.zeros(1024, dtype=np.int64)
        self._counts: npt.NDArray[np.int64] = np.zeros(1024, dtype=np.int64)
        pairs: Counter[int] = Counter()
        symbols: Counter[int] = Counter()
        for number in range(len(self._words)):
            self._count(number, 1, pairs, symbols)
        self._apply(pairs, symbols)

    def best(self) -> tuple[int, int] | None:
        """The pair of the highest score, or None if no pair is frequent enough."""
        used = len(self._inside)
        places = np.flatnonzero(self._counts[:used] >= self._min_count)
        if not len(places):
            return None
        keys, counts = self._keys[places], self._counts[places]
        scores = counts / (self._symbols[keys >> _SHIFT] * self._symbols[keys & (2**_SHIFT - 1)])
        tied = np.flatnonzero(scores == scores.max())
        tied = tied[counts[tied] == counts[tied].max()]
        key = int(keys[tied].min())
        return key >> _SHIFT, key & (2**_SHIFT - 1)

    def merge(self, left: int, right: int) -> None:
        """Join the pair wherever it stands, from left to right."""
        joined = self._id(self.tokens[left] + self.tokens[right].removeprefix(CONTINUES))
        pairs: Counter[int] = Counter()
        symbols: Counter[int] = Counter()
        place = self._places[left << _SHIFT | right]
        for number in sorted(self._inside[place]):
            self._count(number, -1, pairs, symbols)
            self._words[number] = list(_joined(self._words[number], left, right, joined))
            self._count(number, 1, pairs, symbols)
        self._inside[place] = set()
        self._apply(pairs, symbols)

    def _id(self, token: str) -> int:
        """The id of a token; two ways of merging may spell the same one."""
        if token not in self._ids:
            self._ids[token] = len(self.tokens)
            self.tokens.append(token)
            if len(self.tokens) > len(self._symbols):
                self._symbols = np.concatenate([self._symbols, np.zeros_like(self._symbols)])
        return self._ids[token]

    def _count(self, number: int, sign: int, pairs: Counter[int], symbols: Counter[int]) -> None:
        """Add one word's symbols and pairs to the changes, or take them away."""
        word, times = self._words[number], sign * self._frequency[number]
        for symbol in word:
            symbols[symbol] += times
        for left, right in itertools.pairwise(word):
            key = left << _SHIFT | right
            pairs[key] += times
            if sign > 0:
                self._inside[self._place(key)].add(number)

    def _place(self, key: int) -> int:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self._inside)
            self._inside.append(set())
            if place == len(self._keys):
                self._keys = np.concatenate([self._keys, np.zeros_like(self._keys)])
                self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
            self._keys[place] = key
        return place

    def _apply(self, pairs: Counter[int], symbols: Counter[int]) -> None:
        for key, change in pairs.items():
            self._counts[self._place(key)] += change
        for symbol, change in symbols.items():
            self._symbols[symbol] += change


def _joined(word: Sequence[int], left: int, right: int, joined: int) -> Iterator[int]:
    place = 0
    while place < len(word):
        if word[place] == left and place + 1 < len(word) and word[place + 1] == right:
            yield joined
            place += 2
        else:
            yield word[place]
            place += 1
