"""Dotted paths into a spec: read one, replace one, list all. An unknown path names its nearest neighbour."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TypeVar, cast

from variorum.errors import NotFound, nearest
from variorum.spec.part import Part

P = TypeVar("P", bound=Part)


def _names(node: object) -> list[str]:
    if isinstance(node, Part):
        return [f.name for f in dataclasses.fields(node)]
    if isinstance(node, Mapping):
        return [str(key) for key in node]
    return []


def _child(node: object, name: str, path: str) -> object:
    if isinstance(node, Mapping):
        for key, value in node.items():
            if str(key) == name:
                return value
    elif isinstance(node, Part) and name in _names(node):
        return getattr(node, name)
    kind = "None" if node is None else type(node).__name__
    raise NotFound(f"{kind} has no field {name!r}", where=path, remedy=nearest(name, _names(node)))


def lookup(spec: Part, path: str) -> object:
    """The value at ``path``.

    Raises:
        NotFound: no such path; the nearest name is given.
    """
    node: object = spec
    for name in path.split("."):
        node = _child(node, name, path)
    return node


def replaced(spec: P, path: str, value: object) -> P:
    """``spec`` with ``value`` at ``path``; a part is replaced whole, so no stale field survives.

    Raises:
        NotFound: no such path; the nearest name is given. A new key may be added to a mapping.
    """
    return cast(P, _replace(spec, path.split("."), value, path))


def _replace(node: object, names: list[str], value: object, path: str) -> object:
    head, *rest = names
    if isinstance(node, Mapping):
        key = next((k for k in node if str(k) == head), int(head) if head.isdigit() else head)
        if not rest and value is None:
            return {k: v for k, v in node.items() if k != key}
        new = _replace(_child(node, head, path), rest, value, path) if rest else value
        return {**node, key: new}
    old = _child(node, head, path)
    new = _replace(old, rest, value, path) if rest else value
    return type(node)(**{**vars(node), head: new})


def leaves(node: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every (path, value) below ``node`` whose value is not itself a part or mapping, plus each part's kind.

    The kind of a part is listed at ``path`` itself, so two specs that hold different parts there differ at it.
    """
    if isinstance(node, Part):
        if prefix:
            yield prefix, type(node)
        for name in _names(node):
            yield from leaves(getattr(node, name), f"{prefix}.{name}" if prefix else name)
    elif isinstance(node, Mapping):
        for key, value in node.items():
            yield from leaves(value, f"{prefix}.{key}")
    else:
        yield prefix, node
