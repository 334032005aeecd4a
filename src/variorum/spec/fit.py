"""What fits a memory: the longest context, or the largest batch, that weights and cache alone leave room for.

Activations, a framework's own memory and fragmentation are not counted, so it is an upper bound, and says so.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from variorum.errors import OverBudget, UsageError
from variorum.spec.model import Model
from variorum.spec.size import PUBLISHED, checked_context, chosen_heads, longest, size
from variorum.spec.state import cache

UNITS = {"B": 1, **{f"{p}B": 1000 ** (i + 1) for i, p in enumerate("KMGT")}} | {
    f"{p}iB": 1024 ** (i + 1) for i, p in enumerate("KMGT")
}
NO_LIMIT = 2**40


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fit:
    """The answer: ``solved`` says whether ``context`` or ``batch`` was sought; it is ``None`` where nothing limits it.

    ``limited_by`` is ``memory``, ``positions`` (the table ends first), or ``nothing`` (the cache does not grow).
    """

    name: str
    memory: int
    dtype: str
    weights: int
    cache: int
    context: int | None
    batch: int | None
    solved: str
    limited_by: str


def parse_bytes(text: str) -> int:
    """Bytes of ``24GiB``, ``24 GB``, ``800MB`` …; powers of 1024 with an ``i``, of 1000 without.

    Raises:
        UsageError: not an amount of memory.
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", text)
    unit = next((u for u in UNITS if found and u.lower() == found[2].lower()), None)
    if found is None or unit is None:
        raise UsageError(f"{text!r} is not an amount of memory", remedy="write it like 24GiB or 800MB")
    return int(float(found[1]) * UNITS[unit])


def fit(
    model: Model, memory: int, *, head: str | None = PUBLISHED, context: int | None = None, batch: int | None = None,
    dtype: str = "float16",
) -> Fit:  # fmt: skip
    """The longest context for ``batch`` sequences (1 if absent), or, given ``context`` alone, the largest batch.

    Args:
        model: the spec.
        memory: bytes.
        head: as in :func:`~variorum.spec.size.size`.
        context: tokens of each sequence; sought if absent.
        batch: sequences; sought if ``context`` is given and this is not. With both, it is checked that they fit.
        dtype: of weights and cache.

    Raises:
        OverBudget: the weights alone, or what was asked for, do not fit.
    """
    arch, heads = model.architecture, chosen_heads(model, head)
    weights = size(model, head=heads, context=1, dtype=dtype).weight_bytes

    def kept(n: int, b: int) -> int:
        return sum(held.bytes for held in cache(arch, batch=b, context=n, dtype=dtype))

    room, smallest = memory - weights, (context or 1, batch or 1)
    if kept(*smallest) > room:
        raise OverBudget(
            f"{model.name} does not fit {memory:,} bytes: weights {weights:,}, cache {kept(*smallest):,}",
            remedy="a narrower dtype, a smaller model, or more memory",
        )
    limited = "memory"
    if context is None:
        top = longest(model)
        found: int | None = _largest(lambda n: kept(n, batch or 1) <= room, top or NO_LIMIT)
        limited = "memory" if found not in (top, NO_LIMIT) else "positions" if top else "nothing"
        answer, solved = (None if limited == "nothing" else found, batch or 1), "context"
    else:
        checked_context(model, context)
        if batch is None:
            found = _largest(lambda b: kept(context, b) <= room, NO_LIMIT)
            limited = "nothing" if found == NO_LIMIT else "memory"
            answer, solved = (context, None if limited == "nothing" else found), "batch"  # type: ignore[assignment]
        else:
            answer, solved = (context, batch), "nothing"
    total = kept(answer[0] or 1, answer[1] or 1)
    return Fit(
        name=model.name, memory=memory, dtype=dtype, weights=weights, cache=total, context=answer[0], batch=answer[1],
        solved=solved, limited_by=limited,
    )  # fmt: skip


def _largest(fits: Callable[[int], bool], top: int) -> int:
    """The largest n up to ``top`` that fits, given that 1 does and that none fits above one that does not."""
    low, high = 1, top
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
