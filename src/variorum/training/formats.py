"""How rows are cut from documents: the sequence formats that the papers compare, each a few arrays over a corpus.

=================  =====================================================================================
stream             windows of one length over all documents, an end token after each (GPT-2, LLaMA, T5)
full_sentences     whole sentences up to the length, across documents with a separator (RoBERTa)
doc_sentences      whole sentences up to the length, within one document (RoBERTa)
segment_pair       two halves of such a stretch, each of whole sentences (BERT, ALBERT)
sentence_pair      a sentence and the next (RoBERTa's test of short pairs)
=================  =====================================================================================

A row is found by its number alone. Wrappers and padding are put on in :mod:`variorum.training.feed`. Liu et al. 2019
(RoBERTa), section 4.2, names the last four; a sentence longer than a row is cut.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from variorum.training.shards import Corpus

Ids = NDArray[np.int64]
Format = Literal["stream", "full_sentences", "doc_sentences", "segment_pair", "sentence_pair"]


class Rows(Protocol):
    """Numbered rows of one or two texts; ``texts`` says how many."""

    @property
    def texts(self) -> int: ...

    def __len__(self) -> int: ...

    def row(self, number: int) -> tuple[Ids, ...]:
        """The ids of each text of a row, without a wrapper."""
        ...

    def document(self, number: int) -> int:
        """The document in which a row begins."""
        ...


@dataclass(frozen=True)
class Stream:
    """Windows of ``length`` ids, ``step`` apart, over all documents with ``end`` after each; no rest is kept."""

    corpus: Corpus
    length: int
    step: int
    end: int
    texts = 1

    def __len__(self) -> int:
        total = self.corpus.tokens + self.corpus.documents
        return max(0, (total - self.length) // self.step + 1)

    def row(self, number: int) -> tuple[Ids, ...]:
        begin = number * self.step
        pieces, left, document = [], self.length, self._at(begin)
        starts = self._starts
        while left:
            # A document's own tokens, then its end.
            inside, size = begin - int(starts[document]), int(starts[document + 1] - starts[document])
            first = int(starts[document]) - document
            taken = min(left, size - inside)
            words = min(taken, size - 1 - inside)
            if words:
                pieces.append(self.corpus.ids(first + inside, first + inside + words))
            if taken > words:
                pieces.append(np.array([self.end], np.int64))
            begin, left, document = begin + taken, left - taken, document + 1
        return (np.concatenate(pieces),)

    def document(self, number: int) -> int:
        return self._at(number * self.step)

    @cached_property
    def _starts(self) -> Ids:
        """Where each document begins when every one before has an end token, int64 [D + 1]."""
        tokens = self.corpus.document_tokens
        return tokens + np.arange(len(tokens))

    def _at(self, place: int) -> int:
        return int(np.searchsorted(self._starts, place, side="right")) - 1


@dataclass(frozen=True)
class Sentences:
    """Stretches of whole sentences: row i is the tokens from ``cuts[i]`` to ``cuts[i + 1]``.

    Where a document ends inside a row, ``separator`` stands.
    """

    corpus: Corpus
    cuts: Ids
    separator: int | None = None
    texts = 1

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def row(self, number: int) -> tuple[Ids, ...]:
        start, end = int(self.cuts[number]), int(self.cuts[number + 1])
        borders = self._borders
        inner = borders[np.searchsorted(borders, start, side="right") : np.searchsorted(borders, end)]
        places = [start, *(int(place) for place in inner), end]
        pieces = [self.corpus.ids(a, b) for a, b in itertools.pairwise(places)]
        if self.separator is None or len(pieces) == 1:
            return (np.concatenate(pieces),)
        joint = np.array([self.separator], np.int64)
        return (np.concatenate([part for piece in pieces for part in (joint, piece)][1:]),)

    def document(self, number: int) -> int:
        return int(np.searchsorted(self._borders, int(self.cuts[number]), side="right")) - 1

    @property
    def _borders(self) -> Ids:
        return self.corpus.document_tokens


@dataclass(frozen=True)
class Pairs:
    """Two neighbouring stretches of one document: from ``cuts[i, 0]`` to ``[i, 1]``, and on to ``[i, 2]``."""

    corpus: Corpus
    cuts: Ids
    texts = 2

    def __len__(self) -> int:
        return len(self.cuts)

    def row(self, number: int) -> tuple[Ids, ...]:
        start, middle, end = map(int, self.cuts[number])
        return self.corpus.ids(start, middle), self.corpus.ids(middle, end)

    def document(self, number: int) -> int:
        return int(np.searchsorted(self.corpus.document_tokens, int(self.cuts[number, 0]), side="right")) - 1


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What rows are cut to.

    Attributes:
        length: ids of a row, its wrapper included; of a stream's row, ids in all.
        wrapper: special tokens that will stand around its one text, or its pair.
        end: the id between or after documents.
        ahead: ids by which a stream's row overlaps the next (1 where every token is to predict the next).
    """

    length: int
    wrapper: int
    end: int
    ahead: int = 0


def cut(corpus: Corpus, format: Format, shape: Shape) -> Rows:
    """The rows of a corpus in a format."""
    return _FORMATS[format](corpus, shape)


def _stream(corpus: Corpus, shape: Shape) -> Rows:
    return Stream(corpus, shape.length + shape.ahead, shape.length, shape.end)


def _full(corpus: Corpus, shape: Shape) -> Rows:
    ends = corpus.document_tokens[1:]
    # A separator costs a place in the row that crosses a document's end.
    cost = corpus.sentence_starts + np.searchsorted(ends, corpus.sentence_starts, side="right")
    return Sentences(corpus, _greedy(corpus.sentence_starts, cost, shape.length - shape.wrapper), shape.end)


def _doc(corpus: Corpus, shape: Shape) -> Rows:
    return Sentences(corpus, _within(corpus, shape.length - shape.wrapper))


def _segment_pairs(corpus: Corpus, shape: Shape) -> Rows:
    cuts = _within(corpus, shape.length - shape.wrapper)
    starts = corpus.sentence_starts
    middles = (cuts[:-1] + cuts[1:]) // 2
    nearest = starts[np.minimum(np.searchsorted(starts, middles), len(starts) - 1)]
    # One long sentence has no border inside, and is halved where it is.
    fits = (nearest > cuts[:-1]) & (nearest < cuts[1:])
    rows = np.stack([cuts[:-1], np.where(fits, nearest, middles), cuts[1:]], 1)
    return Pairs(corpus, rows[(rows[:, 1] > rows[:, 0]) & (rows[:, 2] > rows[:, 1])])


def _sentence_pairs(corpus: Corpus, shape: Shape) -> Rows:
    starts, room = corpus.sentence_starts, (shape.length - shape.wrapper) // 2
    rows = np.stack([np.maximum(starts[:-2], starts[1:-1] - room), starts[1:-1],
                     np.minimum(starts[2:], starts[1:-1] + room)], 1)  # fmt: skip
    inside = ~np.isin(starts[1:-1], corpus.document_tokens)
    return Pairs(corpus, rows[inside])


def _within(corpus: Corpus, room: int) -> Ids:
    """Cuts that never leave a document inside a row."""
    pieces = [np.zeros(1, np.int64)]
    for first, last in zip(corpus.document_starts, corpus.document_starts[1:], strict=False):
        starts = corpus.sentence_starts[first : last + 1]
        pieces.append(_greedy(starts, starts, room)[1:])
    return np.concatenate(pieces)


def _greedy(starts: Ids, cost: Ids, room: int) -> Ids:
    """Cuts at as few sentence starts as will do, no stretch costing more than ``room``."""
    cuts, here, last = [int(starts[0])], 0, len(starts) - 1
    while here < last:
        there = int(np.searchsorted(cost, cost[here] + room, side="right")) - 1
        if there <= here:  # a sentence longer than a row
            there = here + 1
            cuts += range(int(starts[here]) + room, int(starts[there]), room)
        cuts.append(int(starts[there]))
        here = there
    return np.array(cuts, np.int64)


_FORMATS: Mapping[Format, Callable[[Corpus, Shape], Rows]] = {
    "stream": _stream, "full_sentences": _full, "doc_sentences": _doc, "segment_pair": _segment_pairs,
    "sentence_pair": _sentence_pairs,
}  # fmt: skip
