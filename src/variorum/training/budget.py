"""A budget in words: so many steps, so many tokens, or so much time, which the plan turns into steps once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from variorum.errors import UsageError

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_MANY = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}
_TIME = re.compile(r"([\d.]+)\s*(s|min|m|h|d)", re.IGNORECASE)
_COUNT = re.compile(r"([\d.,_]+)\s*([kmgb]?)[ -]*(steps?|tokens?)", re.IGNORECASE)


@dataclass(frozen=True)
class Budget:
    """``amount`` of ``unit``."""

    amount: float
    unit: Literal["steps", "tokens", "seconds"]

    def steps(self, tokens_per_step: float, seconds_per_step: float) -> int:
        """How many steps that is; one at least."""
        per = {"steps": 1.0, "tokens": tokens_per_step, "seconds": seconds_per_step}[self.unit]
        return max(1, int(self.amount / max(per, 1e-12)))


def budget_of(text: str) -> Budget:
    """``2000steps``, ``5Mtokens``, ``90s``, ``10m``, ``2h``.

    Raises:
        UsageError: it is none of these, or nothing.
    """
    found = None
    if told := _TIME.fullmatch(text.strip()):
        found = Budget(float(told[1]) * _SECONDS[told[2].lower()], "seconds")
    elif told := _COUNT.fullmatch(text.strip()):
        amount = float(told[1].replace(",", "").replace("_", "")) * _MANY[told[2].lower()]
        found = Budget(amount, "steps" if told[3].lower().startswith("step") else "tokens")
    if found is None or not found.amount > 0:
        raise UsageError(f"{text!r} is no budget", where="--budget", remedy="write 2000steps, 5Mtokens, 90s, 10m or 2h")
    return found
