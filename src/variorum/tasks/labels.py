"""The label set of a classification task, in one documented order.

Names sort by code point, which is scikit-learn's order too, so that columns of scores mean the same there. The order
never depends on the rows' order, on hashing or on the locale, so a reloaded model names the same classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from variorum.errors import NotFound, UsageError, nearest


@dataclass(frozen=True)
class LabelSet:
    """Class names; a class's id is its place in ``names``."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise UsageError("a label is named twice", where="labels")

    @classmethod
    def of(cls, labels: Iterable[str]) -> LabelSet:
        """The distinct labels, in the documented order."""
        return cls(tuple(sorted(set(labels))))

    def __len__(self) -> int:
        return len(self.names)

    def id(self, name: str) -> int:
        """The id of ``name``."""
        try:
            return self.names.index(name)
        except ValueError:
            raise NotFound(f"no label {name!r}", where="labels", remedy=nearest(name, self.names)) from None

    def ids(self, labels: Sequence[str]) -> list[int]:
        """The ids of many labels."""
        place = {name: i for i, name in enumerate(self.names)}
        return [place[label] if label in place else self.id(label) for label in labels]
