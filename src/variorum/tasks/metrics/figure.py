"""A figure that is not sure to the last digit, and says so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A figure and the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def said(self, sign: str = "") -> str:
        """The figure with its interval, for people; ``sign`` is "+" for differences."""
        return f"{self.value:{sign}.3f} [{self.low:{sign}.3f}, {self.high:{sign}.3f}]"
