"""``variorum diff``: two models side by side, as the critical apparatus of an edition prints two readings.

Changes stand under their axis, each with its reason and the places where it shows; below them what they cost.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from variorum.cli.output import chosen, emit, table
from variorum.cli.specs import data, in_bytes, in_flops, resolve, said

if TYPE_CHECKING:
    from variorum.spec.model import Model, Row
    from variorum.spec.size import Size


def command(
    a: str,
    b: str | None = None,
    *,
    context: int | None = None,
    dtype: str = "float16",
    set: tuple[str, ...] = (),
) -> None:
    """Two models side by side: what differs, why, and what it costs.

    Args:
        a: The model to start from: a model, a published size or a spec file.
        b: The model to arrive at. If absent, the first is compared with itself as --set changes it, or with its own
            ancestor.
        context: Tokens of the text that costs are told for; as many as both were trained on, if absent.
        dtype: The type of the cached numbers.
        set: A change as path=value, such as encoder.block.attention.kv_heads=4; of the model to arrive at.
    """
    before, after = _pair(a, b, set)
    rows = before.diff(after)
    effects = consequences(before, after, context=context, dtype=dtype)
    changes = [_as_data(row) for row in rows]
    if chosen() == "jsonl":
        emit([*({"row": "change", **change} for change in changes), *({"row": "cost", **one} for one in effects)])
        return
    emit(
        {"from": before.name, "to": after.name, "changes": changes, "consequences": effects},
        human="\n".join([*_apparatus(before, after, rows), "", *_costs(before, after, effects)]),
    )


def _pair(a: str, b: str | None, set: tuple[str, ...]) -> tuple[Model, Model]:
    from variorum.errors import UsageError

    if b is not None or set:
        return resolve(a), resolve(b or a, set)
    after = resolve(a)
    if after.ancestor is None:
        raise UsageError(f"{a} has no ancestor to differ from", remedy="name a second model, or give --set path=value")
    return after.ancestor, after


def consequences(a: Model, b: Model, *, context: int | None, dtype: str) -> list[dict[str, Any]]:
    """What the difference costs: parameters, FLOPs, cache, longest input, and the share of tokens that teach."""
    from variorum.spec.size import checked_context, size, supervised_share

    if context is None:
        context = min(checked_context(model, None) for model in (a, b))
    one, two = (size(model, context=context, dtype=dtype) for model in (a, b))
    figures: list[tuple[str, Any, Any]] = [
        ("parameters", one.parameters, two.parameters),
        ("active parameters", one.active, two.active),
        ("FLOPs per token", one.flops, two.flops),
        ("cache bytes per token", one.cache_per_token, two.cache_per_token),
        ("cache bytes", one.cache, two.cache),
        ("longest input", _longest(one), _longest(two)),
        ("supervised share of tokens", supervised_share(a.objective), supervised_share(b.objective)),
    ]
    if one.active == one.parameters and two.active == two.parameters:
        del figures[1]
    return [
        {"figure": name, "before": x, "after": y, "ratio": y / x if _numbers(x, y) and x else None, "context": context}
        for name, x, y in figures
    ]


def _numbers(*values: object) -> bool:
    return all(isinstance(value, (int, float)) for value in values)


def _longest(size: Size) -> int | str:
    if size.longest is not None:
        return size.longest
    return f"no limit; trained on {size.trained_length:,}" if size.trained_length else "no limit"


def _as_data(row: Row) -> dict[str, object]:
    return {
        "axis": row.axis, "path": row.path, "before": data(row.before), "after": data(row.after), "why": row.why,
        "relieves": row.relieves, "by": row.by, "change": row.change, "undone": row.undone,
    }  # fmt: skip


def _apparatus(a: Model, b: Model, rows: list[Row]) -> list[str]:
    if not rows:
        return [f"{a.name} and {b.name} are the same in every place"]
    groups = [(key, list(found)) for key, found in itertools.groupby(rows, key=lambda row: (row.axis, row.change))]
    lines = [f"{a.name} → {b.name}: {_counted(len(groups), 'change')} in {_counted(len(rows), 'place')}"]
    width = max(len(row.path) for row in rows)
    for axis, members in itertools.groupby(groups, key=lambda group: group[0][0]):
        lines += ["", axis.upper()]
        for _, found in members:
            reason = _reason(found[0])
            lines += [f"  {reason}"] if reason else []
            lines += [f"    {row.path:<{width}}  {said(row.before)} → {said(row.after)}" for row in found]
    return lines


def _reason(row: Row) -> str:
    relief = f" (relieves {row.relieves})" if row.relieves and not row.undone else ""
    return f"back behind {row.by}, which said: {row.why}" if row.undone else row.why + relief


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _costs(a: Model, b: Model, effects: list[dict[str, Any]]) -> list[str]:
    show = {"FLOPs per token": in_flops, "cache bytes": in_bytes}

    def text(effect: dict[str, Any], side: str) -> str:
        value = effect[side]
        return show[effect["figure"]](value) if effect["figure"] in show else said(value)

    rows = [
        {
            "costs": effect["figure"],
            a.name: text(effect, "before"),
            b.name if b.name != a.name else f"{b.name} ": text(effect, "after"),
            "ratio": "" if effect["ratio"] is None else f"× {effect['ratio']:.3g}",
        }
        for effect in effects
    ]
    return [f"at {effects[0]['context']:,} tokens", *table(rows)]
