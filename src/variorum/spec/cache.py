"""What decoding keeps of the tokens it has read, as a choice: which of them, lying how, in which numbers.

A plan is a choice for a whole stack; an arrangement is what it comes to in one layer, with the arithmetic of its slots.
Nothing here holds a tensor; :mod:`variorum.attention.cache` does, and allocates what is computed here.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from variorum.errors import UsageError
from variorum.spec.architecture import Stack

Kind = Literal["auto", "whole", "ring", "paged"]
Numbers = Literal["model", "int8"]
KINDS: tuple[Kind, ...] = ("auto", "whole", "ring", "paged")
NUMBERS: tuple[Numbers, ...] = ("model", "int8")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CachePlan:
    """What is kept between calls.

    Args:
        kind: "whole" keeps every token of every layer; "ring" the last W of each, where all layers have a window;
            "auto" a ring where a layer has a window and all tokens where it has none; "paged" pages of tokens that
            rows share until one of them writes.
        numbers: keys and values as the model computes them, or "int8" with a scale for each token and head.
        chunk: a prompt is read at most so many tokens at a time (``None``: at once).
        room: slots of each row to make at first; there are more as soon as they are needed.
        page: tokens of a page.
        undo: the most tokens of a row that may be forgotten again at once; only a ring, which has overwritten what
            those tokens pushed out, must know it beforehand.

    Raises:
        UsageError: an unknown kind, or a count below its least.
    """

    kind: Kind = "auto"
    numbers: Numbers = "model"
    chunk: int | None = 2048
    room: int = 0
    page: int = 16
    undo: int = 1

    def __post_init__(self) -> None:
        for name, known in (("kind", KINDS), ("numbers", NUMBERS)):
            if getattr(self, name) not in known:
                raise UsageError(f"no cache has {name} {getattr(self, name)!r}", remedy=f"one of {', '.join(known)}")
        for name, least in (("chunk", 1), ("room", 0), ("page", 1), ("undo", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} of a cache is at least {least}, not {value}", where=name)


PLAN = CachePlan()


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """How the tokens of one layer lie. ``ring``: how many slots there are at most, where the newest token takes the
    slot of the oldest. ``page``: tokens of a page. ``seen``: the last tokens that a new one may see, itself included;
    pages of older ones are let go. ``undo`` as in the plan.
    """

    ring: int | None = None
    page: int | None = None
    seen: int | None = None
    undo: int = 1

    def slots(self, tokens: int) -> int:
        """Slots of a row that holds ``tokens`` tokens and shares none of them."""
        if self.page is not None:
            return (math.ceil(tokens / self.page) - self.pages_past(tokens)) * self.page
        return tokens if self.ring is None else min(self.ring, tokens)

    def pages_past(self, tokens: int) -> int:
        """Pages at the front of a row of ``tokens`` that no later token sees."""
        if self.page is None or self.seen is None:
            return 0
        return max(0, tokens - self.undo - self.seen + 1) // self.page

    @property
    def letters(self) -> str:
        """The slots of a row of T tokens."""
        if self.page is not None:
            past = f" − ⌊(T − {self.undo + self.seen - 1})/{self.page}⌋" if self.seen else ""
            return f"(⌈T/{self.page}⌉{past})·{self.page}"
        return "T" if self.ring is None else f"min(T, {self.ring})"


def arrangement(stack: Stack, index: int, plan: CachePlan) -> Arrangement:
    """How the tokens of layer ``index`` lie.

    Raises:
        UsageError: see :func:`require`.
    """
    window = stack.layer(index).attention.window or None
    if plan.kind == "paged":
        return Arrangement(page=plan.page, seen=window, undo=plan.undo)
    if plan.kind == "whole" or window is None:
        return Arrangement()
    return Arrangement(ring=window + plan.undo - 1, seen=window, undo=plan.undo)


def require(stack: Stack, plan: CachePlan, name: str) -> None:
    """Refuse a plan that the stack called ``name`` cannot keep.

    Raises:
        UsageError: a stack that remembers states; a ring in a layer without a window; pages under a rotation that
            follows the length.
    """
    if stack.mask != "causal":
        raise UsageError(
            f"{name} reads from both sides: a new token changes what all earlier ones are",
            remedy="read the text again; only a causal stack keeps keys",
        )
    if stack.memory:
        raise UsageError(f"{name} remembers states, not keys", remedy="give memory in place of cache")
    if plan.kind == "ring":
        for index in range(stack.depth):
            if not stack.layer(index).attention.window:
                raise UsageError(
                    f"layer {index} of {name} sees every token: a ring would forget what it still sees",
                    remedy="use the kind 'auto', which keeps rings only where there is a window",
                )
    if plan.kind == "paged" and stack.settled is not None:
        raise UsageError(
            f"rotation in {name} follows the length of the text, so keys are made anew and no page can be shared",
            remedy="use the kind 'auto'",
        )
