"""``variorum tree``: who descends from whom and by which change, or which changes answer a pressure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from variorum.cli import output
from variorum.cli.output import emit
from variorum.cli.specs import NOTHING, data, family_name, resolve, said
from variorum.errors import NotFound, UsageError, nearest
from variorum.spec.part import Part

if TYPE_CHECKING:
    from variorum.family.steps import Step
    from variorum.spec.model import Model

Kind = Literal["encoders", "decoders", "seq2seq"]
NARROW = 48


def command(name: str | None = None, *, relieves: str | None = None, table: Kind | None = None) -> None:
    """The family tree: who descends from whom, and by which change.

    Args:
        name: A model, a published size or a spec file: its ancestors and descendants, with the changes that made it.
            All models, if absent.
        relieves: A pressure such as kv-memory: the changes that answer it, with their reasons.
        table: What each model of a kind changed against BERT, GPT-1 or the first Transformer, whether that is
            a choice alone (config), is trained (learned) or lives during a run (state), on which axis, and what for.
    """
    from variorum.family import models

    known = models()
    spec = resolve(name) if name else None
    chosen = known.get(family_name(spec), spec) if spec else None
    kin = [model for model in known.values() if chosen is None or _kin(model, chosen)]
    if chosen is not None and chosen.name not in known:
        kin = list(chosen.lineage)  # the family does not know it, but it knows where it comes from
    if table is not None:
        _steps(table, {model.name for model in kin})
        return
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


def _steps(kind: Kind, wanted: set[str]) -> None:
    """The table of a kind. Data hold every step since the base; people are told of those since the row above."""
    from variorum.family.steps import members, steps

    known = members(kind)
    base, names = known[0], [model.name for model in known]
    shown = [model for model in known if model.name in wanted]
    if not shown:
        raise NotFound(f"none of these models is among the {kind}", remedy="leave the model out to see all")
    made = {model.name: steps(model, base) for model in shown}
    rows: list[dict[str, str]] = []
    for model in shown:
        above = model.ancestor.name if model.ancestor is not None else ""
        lines = [_in_words(step) for step in made[model.name] if above not in names or step.by == model.name]
        if model is base:
            lines = [{"changed": NOTHING, "reaches": "", "axis": "", "payoff": _baseline(model)}]
        elif above in names and above != base.name:
            lines.insert(0, {"changed": f"as {above}, and", "reaches": "", "axis": "", "payoff": ""})
        rows += [{"model": "" if place else model.name, **line} for place, line in enumerate(lines)]
    columns: list[str | output.Column] = [
        "model",
        output.Column("changed", f"changed since {base.name}"),
        "reaches",
        "axis",
        "payoff",
    ]
    told = [row for model in shown for row in _step_data(model, base, made[model.name])]
    emit(told, human="\n".join(output.table(rows, columns)))


def _step_data(model: Model, base: Model, found: list[Step]) -> list[dict[str, Any]]:
    if model is base:
        return [{"model": model.name, "since": None, "payoff": _baseline(model)}]
    return [
        {
            "model": model.name, "since": base.name, "by": step.by, "path": step.change.path,
            "before": data(step.before), "after": data(step.after), "also": list(step.change.also),
            "reaches": step.decided, "axis": step.change.axis, "payoff": step.change.why,
            "relieves": step.change.relieves,
        }
        for step in found
    ]  # fmt: skip


def _in_words(step: Step) -> dict[str, str]:
    path = step.change.path.removeprefix("architecture.")
    for stack in ("encoder.", "decoder."):
        path = path.removeprefix(stack)
    changed = f"{path.removeprefix('block.')}: {_difference(step.before, step.after)}"
    relief = f" ({step.change.relieves})" if step.change.relieves else ""
    return {"changed": changed, "reaches": step.decided, "axis": step.change.axis, "payoff": step.change.why + relief}


def _difference(before: object, after: object) -> str:
    """Two values with an arrow between; of two parts of one kind only what differs, of long ones only the kind."""
    if isinstance(before, Part) and isinstance(after, Part) and type(before) is type(after):
        differing = [f"{name} {_kind(old)} → {_kind(new)}" for name, old, new in _unlike(before, after)]
        shown = list(itertools.takewhile(lambda one: len(one) <= NARROW, itertools.accumulate(differing, _joined)))
        most = shown[-1] if shown else differing[0] if differing else said(after)
        return most if not differing or most.count(" → ") == len(differing) else f"{most} …"
    one, two = said(before), said(after)
    if len(one) + len(two) > NARROW:
        one, two = _kind(before), _kind(after)
    return f"{one} → {two}" if one != two else two


def _unlike(before: Part, after: Part, above: str = "") -> Iterator[tuple[str, object, object]]:
    """The fields in which two parts of one kind differ, with both values."""
    for name in type(after).__dataclass_fields__:
        old, new = getattr(before, name), getattr(after, name)
        if isinstance(old, Part) and type(old) is type(new):
            yield from _unlike(old, new, f"{above}{name}.")
        elif old != new:
            yield above + name, old, new


def _joined(one: str, two: str) -> str:
    return f"{one}, {two}"


def _kind(value: object) -> str:
    """A value that takes too long to say whole: what kind of thing it is."""
    text = type(value).__name__ if isinstance(value, Part) else said(value)
    return text if len(text) <= NARROW // 2 else f"{text[: NARROW // 2 - 1]}…"


def _baseline(model: Model) -> str:
    return f"{' and '.join(model.architecture.stacks)} trained by {model.objective.kind}"
