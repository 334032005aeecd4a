"""What models look at when they answer: the one check that trains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from variorum.checks.finding import Finding, above, measured
from variorum.tasks.gazes import ASKED, LEARNED, compare

RIGHT, TWICE = 0.95, 2


def answer_attention() -> Iterator[Finding]:
    """H8: what writes an answer attends to it; the question of what finds it in the text need not."""
    seen = compare()
    for name, one in seen.items():
        how = f"a nano model made from nothing, taught {LEARNED:,} made-up questions and asked up to {ASKED} others"
        yield above(f"{name}: share of exact answers", one["exact"], RIGHT, how)
    writer, reader = seen["t5"], seen["bert"]
    bound, how = TWICE * writer["uniform_share"], f"cross-attention from the answer's tokens; {_beside(writer)}"
    yield above("t5: share of attention on the answer", writer["best_share"], bound, how)
    how = f"self-attention from the question's tokens; {_beside(reader)}"
    yield measured("bert: share of attention on the answer", reader["best_share"], how)
    for name, one in seen.items():
        how = f"layer by layer, each its heads from the first; entropy of the best {one['best_entropy']:.3g} nats"
        yield measured(
            f"{name}: the share of every head", [[round(x, 3) for x in layer] for layer in one["share"]], how
        )


def _beside(one: dict[str, Any]) -> str:
    layer, head = one["best"]
    return f"layer {layer + 1}, head {head + 1} has most; {one['uniform_share']:.3g} if all tokens were alike"
