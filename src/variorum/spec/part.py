"""What every spec dataclass shares: it is frozen, its fields are keyword-only, and each field says who would notice.

``seen(by=...)`` declares the *observer* of a field: the kind of check that fails when the field holds a
neighbouring legal value. The mutation suite flips every field and expects its observer, or a stronger one, to fail,
so a field whose value does not matter cannot hide. From the strongest: *load* (the published directory no longer
fits), *forward*, *gradient*, *cache*, *loss*, *tokenizer*, *training* (dropout, fresh weights); *none* says why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, TypeVar, dataclass_transform

T = TypeVar("T")
Observer = Literal["forward", "load", "gradient", "cache", "loss", "tokenizer", "training", "none"]


@dataclasses.dataclass(frozen=True)
class Part:
    """Base of every piece of a spec. Plain data; equal when its fields are equal."""

    def brief(self) -> str:
        """One-line form: the kind and the fields that are not at their default."""
        shown = [
            f"{f.name}={_brief(getattr(self, f.name))}"
            for f in dataclasses.fields(self)
            if f.default is dataclasses.MISSING or getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _brief(value: object) -> str:
    if isinstance(value, Part):
        return value.brief()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:,.0f}" if abs(value) >= 1e5 else str(int(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def seen(*, by: Observer, default: Any = dataclasses.MISSING, because: str = "") -> Any:
    """A dataclass field with its observer; ``because`` is required when nobody can see it."""
    if by == "none" and not because:
        raise TypeError("a field that nobody sees says why")
    return dataclasses.field(default=default, metadata={"seen_by": by, "because": because}, kw_only=True)


def table(*, by: Observer, default_factory: Callable[[], Any] = dict, because: str = "") -> Any:
    """A field that maps names to parts, empty by default."""
    return dataclasses.field(
        default_factory=default_factory, metadata={"seen_by": by, "because": because}, kw_only=True
    )


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(seen, table))
def part(cls: type[T]) -> type[T]:
    """Class decorator: a frozen, keyword-only :class:`Part`."""
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)
