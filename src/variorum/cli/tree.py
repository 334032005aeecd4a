"""``variorum tree``: who descends from whom and by which change, or which changes answer a pressure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from variorum.cli.output import emit
from variorum.cli.specs import data, family_name, resolve, said
from variorum.errors import NotFound, UsageError, nearest

if TYPE_CHECKING:
    from variorum.spec.model import Model


def command(name: str | None = None, *, relieves: str | None = None) -> None:
    """The family tree: who descends from whom, and by which change.

    Args:
        name: A model, a published size or a spec file: its ancestors and descendants, with the changes that made it.
            All models, if absent.
        relieves: A pressure such as kv-memory: the changes that answer it, with their reasons.
    """
    from variorum.family import models

    known = models()
    spec = resolve(name) if name else None
    chosen = known.get(family_name(spec), spec) if spec else None
    kin = [model for model in known.values() if chosen is None or _kin(model, chosen)]
    if chosen is not None and chosen.name not in known:
        kin = list(chosen.lineage)  # the family does not know it, but it knows where it comes from
    if relieves is not None:
        _answers(kin, relieves)
        return
    emit([_as_data(model) for model in kin], human="\n".join([*_drawn(kin), *(_made(chosen) if chosen else ())]))


def _kin(model: Model, chosen: Model) -> bool:
    names = [ancestor.name for ancestor in chosen.lineage]
    return model.name in names or chosen.name in [ancestor.name for ancestor in model.lineage]


def _as_data(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "ancestor": model.ancestor.name if model.ancestor else None,
        "generation": len(model.lineage) - 1,
        "cite": model.cite,
        "weaknesses": list(model.weaknesses),
        "changes": [
            {"path": c.path, "value": data(c.value), "axis": c.axis, "why": c.why, "relieves": c.relieves}
            for c in model.changes
        ],
        "sizes": list(model.sizes),
    }


def _drawn(kin: list[Model]) -> list[str]:
    names = {model.name for model in kin}
    roots = [model for model in kin if model.ancestor is None or model.ancestor.name not in names]
    rows = [row for root in roots for row in _branch(root, kin, "", "")]
    width = max(len(row[0]) for row in rows)
    return [f"{drawn:<{width}}  {text}".rstrip() for drawn, text in rows]


def _branch(model: Model, kin: list[Model], here: str, below: str) -> Iterator[tuple[str, str]]:
    yield here + model.name, f"{model.cite}{_summary(model)}"
    young = [child for child in kin if child.ancestor is not None and child.ancestor.name == model.name]
    for child in young:
        last = child is young[-1]
        yield from _branch(child, kin, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))


def _summary(model: Model) -> str:
    if not model.changes:
        return ""
    axes = dict.fromkeys(change.axis for change in model.changes)
    return f" · {len(model.changes)} change{'s' if len(model.changes) > 1 else ''}: {', '.join(axes)}"


def _made(model: Model) -> list[str]:
    """The changes that made one model, its weaknesses and its published sizes."""
    lines = [""]
    if model.ancestor is not None:
        lines.append(f"{model.name} is {model.ancestor.name} with")
        width = max(len(change.path) for change in model.changes)
        for change in model.changes:
            relief = f" (relieves {change.relieves})" if change.relieves else ""
            lines.append(f"  {change.axis:<11}  {change.path:<{width}}  {change.why}{relief}")
    if model.weaknesses:
        lines.append(f"suffers from  {', '.join(model.weaknesses)}")
    if model.sizes:
        lines.append(f"published as  {', '.join(model.sizes)}")
    return lines


def _answers(kin: list[Model], pressure: str) -> None:
    from variorum.spec.model import PRESSURES

    if pressure not in PRESSURES:
        remedy = nearest(pressure, PRESSURES) or f"one of {', '.join(PRESSURES)}"
        raise UsageError(f"unknown pressure {pressure!r}", where="--relieves", remedy=remedy)
    rows = [
        {
            "model": model.name,
            "path": change.path,
            "before": _before(model, change.path),
            "after": said(change.value),
            "axis": change.axis,
            "why": change.why,
        }
        for model in kin
        for change in model.changes
        if change.relieves == pressure
    ]
    sufferers = [model.name for model in kin if pressure in model.weaknesses]
    if not rows:
        raise NotFound(f"no change among these models relieves {pressure}", remedy="leave the model out to see all")
    width = max(len(row["model"]) for row in rows)
    lines = [f"{pressure} weighs on {', '.join(sufferers)}" if sufferers else pressure, ""]
    for row in rows:
        lines.append(f"{row['model']:<{width}}  {row['why']}")
        lines.append(f"{'':<{width}}  {row['path']}  {row['before']} → {row['after']}")
    emit(rows, human="\n".join(lines))


def _before(model: Model, path: str) -> str:
    from variorum.spec.paths import lookup

    try:
        return said(lookup(model.ancestor, path)) if model.ancestor else said(None)
    except NotFound:
        return said(None)
