"""What the verbs on specs share: names to specs, spec values as text and as data, layers that agree put together.

It computes nothing about a model; :mod:`variorum.spec` does.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from variorum.spec.part import Part

if TYPE_CHECKING:
    from variorum.spec.model import Model

T = TypeVar("T")
NOTHING = "–"
_LAYER = re.compile(r"(\w+\.layers\.\d+)(?=\.|$)")


def resolve(name: str, set: Sequence[str] = ()) -> Model:
    """The spec that ``name`` refers to: a model, a published size, a spec file, a directory or a GGUF file.

    Args:
        name: the reference.
        set: changes to it, each ``path=value``.

    Raises:
        NotFound: nothing has this name, or nothing is at this path. Further kinds: what is there cannot be read, or
            what would come out breaks a rule.
    """
    from variorum.family import find

    if set or name.lower().endswith(".toml"):
        from variorum.family.reference import changed, read

        return changed(resolve(name), set) if set else read(name)
    if name.lower().endswith(".gguf") or os.sep in name:
        from variorum.checkpoint.source import read_spec
        from variorum.hub import locate

        return read_spec(locate(name))
    return find(name)


def family_name(model: Model) -> str:
    """The name of the model that a published size belongs to; its own for a model."""
    from variorum.family import sizes

    return sizes().get(model.name.lower(), model.name)


def head_choice(word: str) -> str | None:
    """What ``--head`` means: a name, or ``None`` for the bare model."""
    return None if word.lower() == "none" else word


def said(value: object) -> str:
    """A spec value in words: a part in its brief form, nothing as a dash."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Part):
        fields = [
            f"{f.name}={said(getattr(value, f.name))}" for f in dataclasses.fields(value) if not _at_default(value, f)
        ]
        return f"{type(value).__name__}({', '.join(fields)})" if fields else type(value).__name__
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {said(item)}" for key, item in value.items()) + "}" if value else NOTHING
    if isinstance(value, (tuple, list)):
        return ", ".join(said(item) for item in value) or NOTHING
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and 1 <= abs(value) < 1e9 else f"{value:.6g}"
    return str(value)


def _at_default(value: Part, field: dataclasses.Field[object]) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(getattr(value, field.name) == field.default_factory())
    return field.default is not dataclasses.MISSING and getattr(value, field.name) == field.default


def data(value: object) -> object:
    """A spec value as JSON has it: a part as an object with its ``kind``."""
    if isinstance(value, Part):
        fields = {f.name: data(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {str(key): data(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [data(item) for item in value]
    return value


def in_bytes(count: int | float) -> str:
    """An amount of memory as people write it."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.2f} {unit}"
        size /= 1024
    return f"{size:,.2f} TiB"


def in_flops(count: int) -> str:
    """A number of operations as people write it."""
    size = float(count)
    for unit in ("", "k", "M", "G", "T", "P"):
        if size < 1000:
            return f"{size:.4g} {unit}FLOP"
        size /= 1000
    return f"{size:,.4g} EFLOP"


def in_ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as ranges, as in ``0–2, 4`` or ``1–41 by 2``."""
    steps = {b - a for a, b in itertools.pairwise(numbers)}
    if len(numbers) > 2 and len(steps) == 1 and steps != {1}:
        return f"{numbers[0]}–{numbers[-1]} by {steps.pop()}"
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in spans)


def alike(items: Sequence[T], name: Callable[[T], str], key: Callable[[T], object]) -> list[tuple[str, list[T]]]:
    """Items of layers that agree in all their items' names and ``key``, each under one name; order is kept.

    The name has the layers' numbers as ranges: ``encoder.layers.0–11.attention.query``.
    """
    layers: dict[str, list[object]] = {}
    for item in items:
        if found := _LAYER.match(name(item)):
            layers.setdefault(found[1], []).append((name(item)[found.end() :], key(item)))
    kinds = {layer: (layer.partition(".")[0], tuple(content)) for layer, content in layers.items()}
    numbers: dict[object, list[int]] = {}
    for layer, kind in kinds.items():
        numbers.setdefault(kind, []).append(int(layer.rpartition(".")[2]))
    groups: dict[object, tuple[str, list[T]]] = {}
    for item in items:
        at, where = name(item), name(item)
        place: object = (at, key(item))
        if found := _LAYER.match(at):
            kind, rest = kinds[found[1]], at[found.end() :]
            where = f"{kind[0]}.layers.{in_ranges(numbers[kind])}{rest}"
            place = (kind, rest, key(item))
        groups.setdefault(place, (where, []))[1].append(item)
    return list(groups.values())
