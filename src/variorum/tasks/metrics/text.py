"""Written texts against what should have been written: BLEU, chrF and TER by sacrebleu; ROUGE-L, word and character
error rates.

Scores are those of a whole corpus and do not depend on the order of its rows. References are a text for each row, or a
list of texts for each row; nothing else is taken for them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from variorum.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from variorum.tasks.metrics.intervals import Figure

T = TypeVar("T")
References = Sequence[str] | Sequence[Sequence[str]]
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Edits that turn what was written into the reference, of so many reference units; pooled over rows by ``+``."""

    substituted: int = 0
    deleted: int = 0
    inserted: int = 0
    length: int = 0

    def __add__(self, other: Errors) -> Errors:
        return Errors(
            substituted=self.substituted + other.substituted, deleted=self.deleted + other.deleted,
            inserted=self.inserted + other.inserted, length=self.length + other.length,
        )  # fmt: skip

    @property
    def rate(self) -> float:
        """Edits for each unit of the reference; above 1 where much was added, infinite where there was nothing."""
        edits = self.substituted + self.deleted + self.inserted
        return edits / self.length if self.length else float("inf") if edits else 0.0


def bleu(written: Sequence[str], references: References) -> float:
    """Corpus BLEU from 0 to 100, sacrebleu's defaults (13a tokens, exponential smoothing).

    Raises:
        UsageError: see :func:`by_row`.
    """
    return _scored("BLEU", written, references)


def chrf(written: Sequence[str], references: References) -> float:
    """Corpus chrF2 from 0 to 100, sacrebleu's defaults (six characters, no words).

    Raises:
        UsageError: see :func:`by_row`.
    """
    return _scored("CHRF", written, references)


def chrf_of(written: Sequence[str], references: Sequence[str]) -> Figure:
    """:func:`chrf` as a figure that can be resampled over items."""
    import numpy as np
    from sacrebleu.metrics.chrf import CHRF

    metric: Any = CHRF()
    # What sacrebleu itself keeps of each row for its own resampling.
    stats = np.array(
        metric._extract_corpus_statistics(list(written), [[row[0] for row in by_row(written, references)]])
    )

    def figure(counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.array([metric._compute_score_from_stats(total.tolist()).score for total in counts @ stats])

    return figure


def chrf_each(written: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF2 of each text by itself."""
    from sacrebleu.metrics.chrf import CHRF

    metric: Any = CHRF()
    rows = by_row(written, references)
    return [float(metric.sentence_score(text, right).score) for text, right in zip(written, rows, strict=True)]


def ter(written: Sequence[str], references: References) -> float:
    """Corpus translation edit rate in percent, the lower the better, sacrebleu's defaults.

    Raises:
        UsageError: see :func:`by_row`.
    """
    return _scored("TER", written, references)


def rouge_l(written: Sequence[str], references: References) -> float:
    """Mean F1 from 0 to 100 of the longest common subsequence of words, the best reference of each row (Lin 2004).

    Words are those of :func:`words`, without stemming.

    Raises:
        UsageError: see :func:`by_row`.
    """
    rows = zip(written, by_row(written, references), strict=True)
    best = [max(_overlap(words(text), words(one)) for one in some) for text, some in rows]
    return 100 * sum(best) / len(best)


def word_errors(written: str, reference: str) -> Errors:
    """Word errors of one text, by the words of :func:`words`."""
    return edits(words(written), words(reference))


def character_errors(written: str, reference: str) -> Errors:
    """Character errors of one text, runs of blanks taken as one."""
    return edits(" ".join(written.split()), " ".join(reference.split()))


def words(text: str) -> list[str]:
    """Runs of letters and digits in lower case, apostrophes inside kept: what is heard of a text, not how it is set."""
    return [found.replace("’", "'") for found in _WORD.findall(text.casefold())]


def by_row(written: Sequence[str], references: References) -> list[list[str]]:
    """The references of each row.

    Raises:
        UsageError: no rows, not as many references as rows (as when they come a list for each set, in place of a list
            for each row), or a row without any.
    """
    if not written:
        raise UsageError("there is nothing to score", remedy="give at least one text")
    if len(references) != len(written):
        raise UsageError(
            f"{len(references)} references for {len(written)} texts",
            remedy="give one for each text, or for each text a list of its own",
        )
    rows = [[one] if isinstance(one, str) else list(one) for one in references]
    bare = next((number for number, row in enumerate(rows) if not row), None)
    if bare is not None:
        raise UsageError("has no reference", where=f"row {bare + 1}", remedy="leave the row out, or give one")
    return rows


def edits(written: Sequence[T], reference: Sequence[T]) -> Errors:
    """The fewest edits between two sequences (Levenshtein 1966); of equal ones those with most substitutions."""
    # Of each prefix of the reference: edits, then what they are, against the part of ``written`` that was read.
    row = [(at, 0, at, 0) for at in range(len(reference) + 1)]
    for count, mine in enumerate(written, 1):
        above, row = row, [(count, 0, 0, count)]
        for at, right in enumerate(reference, 1):
            total, swapped, lost, added = above[at - 1]
            if mine != right:
                total, swapped = total + 1, swapped + 1
            left, up = row[at - 1], above[at]
            ways = (
                (total, swapped, lost, added),
                (left[0] + 1, left[1], left[2] + 1, left[3]),
                (up[0] + 1, up[1], up[2], up[3] + 1),
            )
            row.append(min(ways, key=lambda way: way[0]))
    _, swapped, lost, added = row[-1]
    return Errors(substituted=swapped, deleted=lost, inserted=added, length=len(reference))


def _overlap(written: Sequence[str], reference: Sequence[str]) -> float:
    """F1 of the longest common subsequence; two empty texts agree."""
    if not written or not reference:
        return float(written == reference)
    row = [0] * (len(reference) + 1)
    for mine in written:
        before = 0
        for at, right in enumerate(reference, 1):
            before, row[at] = row[at], before + 1 if mine == right else max(row[at], row[at - 1])
    return 2 * row[-1] / (len(written) + len(reference))


def _scored(name: str, written: Sequence[str], references: References) -> float:
    """A corpus score of sacrebleu, which wants a list for each *set* of references, ``None`` where a row has fewer."""
    rows = by_row(written, references)
    from sacrebleu import metrics

    sets = [[row[i] if i < len(row) else None for row in rows] for i in range(max(map(len, rows)))]
    metric: Any = getattr(metrics, name)()
    return float(metric.corpus_score(list(written), sets).score)
