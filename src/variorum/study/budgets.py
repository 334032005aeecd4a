"""What arms are given alike: steps, tokens, floating-point operations, seconds, or parameters."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from variorum.errors import UsageError
from variorum.spec.model import Model
from variorum.spec.size import size
from variorum.training import budget

_MANY = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_FLOPS = re.compile(r"([\d.,_]+)\s*([kmgtp]?)[ -]*flops?", re.IGNORECASE)
NEAR = 0.02
"""Parameters are matched when they are this near, as a share."""


@dataclass(frozen=True)
class Budget:
    """``amount`` of ``unit`` for each arm, as it was ``said``."""

    amount: float
    unit: Literal["steps", "tokens", "flops", "seconds"]
    said: str

    def __str__(self) -> str:
        return self.said

    def steps(self, *, tokens: float = 1, flops: float = 1, seconds: float = 1) -> int:
        """How many steps that is, where one reads so many tokens, and takes so many operations or seconds."""
        each = {"steps": 1.0, "tokens": tokens, "flops": flops, "seconds": seconds}[self.unit]
        return max(1, round(self.amount / each))


def budget_of(text: str) -> Budget:
    """``300steps``, ``5Mtokens``, ``2Tflops``, ``90s``.

    Raises:
        UsageError: it is none of these, or nothing.
    """
    said, told = text.strip(), _FLOPS.fullmatch(text.strip())
    amount = float(told[1].replace(",", "").replace("_", "")) * _MANY[told[2].lower()] if told else 0.0
    if amount > 0:
        return Budget(amount, "flops", said)
    try:
        plain = budget.budget_of(said)
    except UsageError as error:
        raise UsageError(error.what, where="--budget", remedy="write 300steps, 5Mtokens, 2Tflops or 90s") from None
    return Budget(plain.amount, plain.unit, said)


def matched(spec: Model, like: Model, dial: Literal["width", "depth"]) -> Model:
    """``spec`` with about as many parameters as ``like``: feed-forwards as wide, or stacks as deep, as that takes.

    Raises:
        UsageError: no setting of the dial comes near.
    """
    wanted = size(like, head=tuple(like.architecture.heads)).parameters
    paths = [
        f"architecture.{name}.{'depth' if dial == 'depth' else 'block.feedforward.width'}"
        for name in spec.architecture.stacks
    ]

    def at(setting: int) -> Model:
        return spec.set(dict.fromkeys(paths, setting if dial == "depth" else 8 * setting))

    def parameters(setting: int) -> int:
        made = at(setting)
        return size(made, head=tuple(made.architecture.heads)).parameters

    best = at(_nearest(parameters, wanted))
    found = size(best, head=tuple(best.architecture.heads)).parameters
    if abs(found - wanted) > NEAR * wanted and dial == "width":
        raise UsageError(
            f"{spec.name} has {found:,} parameters at best, not {wanted:,}", where="--match", remedy="match by depth"
        )
    return best


def _nearest(value: Callable[[int], int], wanted: int) -> int:
    """The whole number from 1 on at which a rising ``value`` is nearest to ``wanted``."""
    high = 1
    while value(high) < wanted and high < 2**20:
        high *= 2
    low = max(1, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if value(middle) < wanted else (low, middle)
    return min((one for one in (low - 1, low) if one >= 1), key=lambda one: abs(value(one) - wanted))
