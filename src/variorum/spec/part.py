"""What every spec dataclass shares: it is frozen, its fields are keyword-only, and each field says who would notice.

``seen(by=...)`` declares the *observer* of a field: the kind of check that fails when the field holds a
neighbouring legal value. The mutation suite flips every field and expects its observer, or a stronger one, to fail,
so a field whose value does not matter cannot hide. From the strongest: *load* (the published directory no longer
fits), *forward*, *gradient*, *cache*, *loss*, *tokenizer*, *training* (dropout, fresh weights); *none* says why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, dataclass_transform

if TYPE_CHECKING:
    import inspect

T = TypeVar("T")
Observer = Literal["forward", "load", "gradient", "cache", "loss", "tokenizer", "training", "none"]


class _Signature:
    """How a part is made, told only when it is asked for."""

    def __get__(self, instance: object, kind: type) -> inspect.Signature:
        import inspect

        fields = getattr(kind, "__dataclass_fields__", {})
        return inspect.Signature([
            inspect.Parameter(
                f.name, inspect.Parameter.KEYWORD_ONLY, annotation=f.type,
                default=inspect.Parameter.empty if f.default is dataclasses.MISSING else f.default,
            )
            for f in fields.values()
        ])  # fmt: skip


class Part:
    """Base of every piece of a spec. Plain data; equal when its fields are equal.

    A part is a frozen dataclass in all but one thing: what dataclasses would write for each class anew, and compile
    at each start, stands here once.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    __signature__ = _Signature()
    _defaults: ClassVar[dict[str, Any]]
    _factories: ClassVar[dict[str, Callable[[], Any]]]

    def __init__(self, **given: Any) -> None:
        kind = type(self)
        values = {**kind._defaults, **given}
        for name, factory in kind._factories.items():
            if name not in values:
                values[name] = factory()
        if values.keys() != kind.__dataclass_fields__.keys():
            fields = kind.__dataclass_fields__
            missing = [name for name in fields if name not in values]
            wrong = f"lacks {', '.join(missing)}" if missing else f"has no {', '.join(given.keys() - fields.keys())}"
            raise TypeError(f"{kind.__name__} {wrong}")
        self.__dict__.update(values)

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in type(self).__dataclass_fields__))

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in type(self).__dataclass_fields__)
        return f"{type(self).__name__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

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
    made = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    fields = made.__dataclass_fields__.values()  # type: ignore[attr-defined]
    made._defaults = {f.name: f.default for f in fields if f.default is not dataclasses.MISSING}  # type: ignore[attr-defined]
    made._factories = {  # type: ignore[attr-defined]
        f.name: f.default_factory for f in fields if f.default_factory is not dataclasses.MISSING
    }
    return made
