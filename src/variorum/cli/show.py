"""``variorum show``: everything a model is, by when it is decided: choices, trained tensors, run-time state."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from variorum.cli.output import chosen, emit, table
from variorum.cli.specs import alike, data, head_choice, in_bytes, resolve, said

if TYPE_CHECKING:
    from variorum.spec.model import Model

Kind = Literal["config", "learned", "state", "rules"]


def command(
    model: str,
    *,
    kind: Kind = "config",
    head: str = "published",
    context: int | None = None,
    batch: int = 1,
    dtype: str = "float16",
    set: tuple[str, ...] = (),
) -> None:
    """Everything a model is: its choices, trained tensors, run-time state.

    Args:
        model: A model, a published size or a spec file.
        kind: What was decided before the run (config), what the run trains (learned), what lives during a run (state),
            or what it may be used for and why not for the rest (rules).
        head: A head to include, none, or published: the head that published counts include.
        context: Tokens of each sequence, for state; as many as it was trained on, if absent.
        batch: Sequences, for state.
        dtype: Of what lives during a run.
        set: A change as path=value, such as encoder.block.attention.kv_heads=4.
    """
    spec = resolve(model, set)
    if kind == "config":
        _config(spec)
    elif kind == "learned":
        _learned(spec, head_choice(head))
    elif kind == "state":
        _state(spec, head_choice(head), context, batch, dtype)
    else:
        _rules(spec)


def _config(spec: Model) -> None:
    from variorum.spec.model import COMPARED
    from variorum.spec.paths import leaves

    rows = [
        {"path": path, "value": value.__name__ if isinstance(value, type) else value}
        | ({"uncertain": spec.uncertain[path]} if path in spec.uncertain else {})
        for field in COMPARED
        for path, value in leaves(getattr(spec, field), field)
    ]
    if chosen() != "human":
        emit([{**row, "value": data(row["value"])} for row in rows])
        return
    facts = {
        "model": spec.name, "cite": spec.cite, "published at": spec.repo,
        "lineage": " → ".join(ancestor.name for ancestor in spec.lineage), "weaknesses": ", ".join(spec.weaknesses),
    }  # fmt: skip
    lines = [f"{name:<13} {value}" for name, value in facts.items() if value]
    lines += [f"{'uncertain':<13} {path}: {why}" for path, why in spec.uncertain.items()]
    shown = [{"path": row["path"], "value": said(row["value"])} for row in rows]
    emit(rows, human="\n".join([*lines, "", *table(shown)]))


def _learned(spec: Model, head: str | None) -> None:
    from variorum.spec.inventory import tensors
    from variorum.spec.size import chosen_heads

    names = tensors(spec.architecture, chosen_heads(spec, head))
    total = sum(math.prod(shape) for shape in names.values())
    rows = [
        {"name": name, "shape": list(shape), "count": math.prod(shape), "share": math.prod(shape) / total}
        for name, shape in names.items()
    ]
    if chosen() != "human":
        emit(rows)
        return
    groups = alike(list(names.items()), lambda item: item[0], lambda item: item[1])
    shown = [
        {
            "tensor": at,
            "shape": " × ".join(f"{size:,}" for size in members[0][1]),
            "tensors": len(members),
            "parameters": (count := sum(math.prod(shape) for _, shape in members)),
            "share": f"{count / total:.2%}",
        }
        for at, members in groups
    ]
    shown.append({"tensor": "all", "shape": "", "tensors": len(names), "parameters": total, "share": "100.00%"})
    emit(rows, human="\n".join(table(shown)))


def _state(spec: Model, head: str | None, context: int | None, batch: int, dtype: str) -> None:
    from variorum.errors import UsageError
    from variorum.spec.size import checked_context, chosen_heads
    from variorum.spec.state import alive

    if batch < 1:
        raise UsageError(f"a batch holds at least one sequence, not {batch}", where="--batch")
    tokens, heads = checked_context(spec, context), chosen_heads(spec, head)
    held = alive(spec.architecture, heads=heads, batch=batch, context=tokens, dtype=dtype)
    rows = [
        {
            "name": one.name, "axes": [axis.letters for axis in one.axes], "shape": list(one.shape),
            "formula": one.formula, "bytes": one.bytes, "kept": one.kept, "note": one.note,
        }
        for one in held
    ]  # fmt: skip
    if chosen() != "human":
        emit(rows)
        return
    groups = alike(held, lambda one: one.name, lambda one: (one.axes, one.item, one.kept))
    shown = [
        {
            "tensor": at,
            "shape": " × ".join(f"{size:,}" for size in members[0].shape),
            "bytes each": members[0].formula,
            "together": in_bytes(sum(one.bytes for one in members)),
            "kept for": {"pass": "one pass", "step": "all steps"}[members[0].kept],
            "note": members[0].note,
        }
        for at, members in groups
    ]
    kept = sum(one.bytes for one in held if one.kept == "step")
    last = f"kept from step to step: {in_bytes(kept)}" if kept else "nothing is kept from pass to pass"
    emit(rows, human="\n".join([*table(shown), "", last]))


def _rules(spec: Model) -> None:
    from variorum.spec.rules import USES, problems

    rows = []
    for use in USES:
        found = problems(spec, use)
        rows.append({
            "use": use, "fits": not found, "why_not": "; ".join(f"{p.what}: {p.reason}" for p in found[:1]),
            "remedy": found[0].remedy if found else "",
        })  # fmt: skip
    emit(rows, columns=("use", "fits", "why_not"))
