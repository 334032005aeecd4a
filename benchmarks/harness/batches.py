"""How texts are put into batches for engines that need padding, and how much padding that makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

BATCH = 32
#: Real and padded tokens of a batch: the best of transformers' on small processors.
BUDGET = 1024


def in_arrival_order(count: int, batch: int = BATCH) -> list[list[int]]:
    """Texts as they come, so many at a time."""
    return [list(range(start, min(start + batch, count))) for start in range(0, count, batch)]


def by_budget(lengths: Sequence[int], budget: int = BUDGET) -> list[list[int]]:
    """Texts by length, as many at a time as the budget holds, padding included; one where it holds none."""
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def padding(lengths: Sequence[int], batches: Iterable[Sequence[int]]) -> float:
    """Tokens that are computed over tokens that are real."""
    return sum(len(which) * max(lengths[i] for i in which) for which in batches) / sum(lengths)
