"""``variorum shapes``: every named tensor of one forward pass with its axes, under the names of the built modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variorum.cli.output import chosen, emit, table
from variorum.cli.specs import alike, head_choice, in_flops, resolve

if TYPE_CHECKING:
    from variorum.spec.shapes import Named


def command(
    model: str,
    *,
    batch: int = 1,
    length: int | None = None,
    target: int | None = None,
    head: str = "published",
    set: tuple[str, ...] = (),
) -> None:
    """Every named tensor of a forward pass with its axes.

    Args:
        model: A model, a published size or a spec file.
        batch: Sequences.
        length: Tokens of each; as many as it was trained on, if absent.
        target: Tokens of the decoder's text in an encoder-decoder; as many as --length, if absent.
        head: A head to include, none, or published: the head that published counts include.
        set: A change as path=value, such as encoder.block.attention.kv_heads=4.
    """
    from variorum.errors import UsageError
    from variorum.spec.shapes import forward
    from variorum.spec.size import checked_context, chosen_heads

    spec = resolve(model, set)
    if batch < 1 or (target is not None and target < 1):
        raise UsageError("a batch and a text hold at least one", where="--batch" if batch < 1 else "--target")
    heads = chosen_heads(spec, head_choice(head))
    tokens = checked_context(spec, length)
    rows = forward(spec.architecture, heads=heads, batch=batch, length=tokens, target=target)
    if chosen() == "human":
        emit([], human="\n".join(_lines(spec.name, rows)))
    else:
        emit([_as_data(row) for row in rows])


def _as_data(row: Named) -> dict[str, object]:
    return {
        "name": row.name,
        "axes": [axis.letters for axis in row.axes],
        "shape": list(row.shape),
        "flops": row.flops,
        "module": row.module,
    }


def _lines(name: str, rows: list[Named]) -> list[str]:
    groups = alike(rows, lambda row: row.name, lambda row: (row.axes, row.flops, row.module))
    shown = [
        {
            "tensor": at if members[0].module else f"({at})",
            "axes": members[0].letters,
            "shape": " × ".join(f"{size:,}" for size in members[0].shape),
            "FLOPs each": in_flops(members[0].flops) if members[0].flops else "",
        }
        for at, members in groups
    ]
    return [
        f"{name}: {len(rows):,} tensors in the order in which they are done; layers that agree share a line",
        "",
        *table(shown),
        "",
        "In brackets: made inside a module. Attention maps are written by the eager backend alone.",
    ]
