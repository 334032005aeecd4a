"""What ``variorum size --measure`` prints: each figure as the spec predicts it, and as a run of the model shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from variorum.cli.output import Column, emit, table, written
from variorum.cli.specs import in_bytes, in_flops
from variorum.errors import OverBudget, UsageError
from variorum.spec.inputs import PatchInput

if TYPE_CHECKING:
    from variorum.spec.model import Model
    from variorum.spec.size import Size

RUNS = ("float64", "float32", "float16", "bfloat16")
#: Beside weights and activations: what an operation needs while it runs, and the libraries themselves.
MARGIN = 1.25


def tell(specs: Sequence[Model], predicted: Sequence[Size], device: str) -> None:
    """Run each model as its prediction says, one after the other, and print both.

    Raises:
        UsageError: a type that nothing runs in, or no such device. OverBudget: a model that memory does not hold.
    """
    for size in predicted:
        if size.dtype not in RUNS:
            raise UsageError(f"no model runs in {size.dtype}", where="--dtype", remedy=f"one of {', '.join(RUNS)}")
    for spec, size in zip(specs, predicted, strict=True):
        reads = spec.architecture.source
        if isinstance(reads, PatchInput) and size.context != reads.length:
            raise UsageError(f"an image becomes {reads.length} vectors", where="--context", remedy="leave it out")
    from variorum.cli.loading import check_device
    from variorum.inference.measure import measure
    from variorum.study.room import available_memory

    check_device(device)
    room = available_memory()
    rows = []
    for spec, size in zip(specs, predicted, strict=True):
        need = int(MARGIN * (2 * size.weight_bytes + size.activations + size.cache))
        if device == "cpu" and room is not None and need > room:
            raise OverBudget(
                f"{size.name} takes about {in_bytes(need)} to build and run, and {in_bytes(room)} are free",
                remedy="give a shorter --context, a smaller model, or fewer layers with --set",
            )
        found = measure(
            spec, heads=size.heads, context=size.context, batch=size.batch, dtype=size.dtype, device=device
        )  # fmt: skip
        for one in found:
            by = one.observed / one.predicted if one.predicted else None
            rows.append({"model": size.name, **vars(one), "observed_by_predicted": by})
    several = [Column("model")] if len(specs) > 1 else []
    shown = [{**row, **{name: _said(row, name) for name in ("predicted", "observed")}} for row in rows]
    ratio = Column("observed_by_predicted", "ratio", written)
    columns: list[str | Column] = [*several, "figure", "predicted", "observed", ratio]
    first = predicted[0]
    note = f"{first.context:,} tokens × batch {first.batch}, {first.dtype}, on {device}; weights are fresh"
    emit(rows, human="\n".join([*table(shown, columns), "", note]))


def _said(row: dict[str, object], name: str) -> str:
    value = row[name]
    if not isinstance(value, (int, float)):
        return "–"
    unit = row["unit"]
    if unit == "bytes":
        return in_bytes(value)
    if unit == "FLOP":
        return in_flops(int(value))
    return f"{value:,.3g} s" if unit == "seconds" else f"{value:,}"
