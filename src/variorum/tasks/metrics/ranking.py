"""How well a search ranks: recall, reciprocal rank and discounted gain of the first k, averaged over queries.

A query's answers are the rows that are right for it; what is not among them is wrong. Every query counts alike.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from variorum.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Means over ``queries`` of what stands among the first ``k``.

    Attributes:
        recall: share of a query's answers that are there.
        reciprocal_rank: 1 over the place of the first answer, 0 where there is none (MRR).
        gain: discounted gain 1 / log2(1 + place) of the answers there, over the best that could be had (nDCG).
    """

    k: int
    queries: int
    recall: float
    reciprocal_rank: float
    gain: float


def ranking(ranked: Sequence[Sequence[int]], answers: Sequence[Collection[int]], k: int = 10) -> Ranking:
    """Judge rankings.

    Args:
        ranked: for each query the rows that were found, the best first; what stands behind the first k is left out.
        answers: for each query the rows that are right.

    Raises:
        UsageError: no queries, not as many answers as rankings, a query without an answer, or k below 1.
    """
    if not ranked or len(ranked) != len(answers) or k < 1:
        raise UsageError(f"{len(ranked)} rankings to k = {k} for {len(answers)} queries", remedy="give one for each")
    bare = next((number for number, right in enumerate(answers) if not right), None)
    if bare is not None:
        raise UsageError("has no answer to be found", where=f"query {bare + 1}", remedy="leave the query out")
    recalls, ranks, gains = [], [], []
    for found, right in zip(ranked, answers, strict=True):
        places = [place for place, row in enumerate(found[:k], 1) if row in right]
        recalls.append(len(places) / len(set(right)))
        ranks.append(1 / places[0] if places else 0.0)
        best = sum(map(_worth, range(1, min(k, len(set(right))) + 1)))
        gains.append(sum(map(_worth, places)) / best)
    count = len(ranked)
    return Ranking(
        k=k, queries=count, recall=sum(recalls) / count, reciprocal_rank=sum(ranks) / count, gain=sum(gains) / count
    )


def _worth(place: int) -> float:
    return 1 / math.log2(1 + place)
