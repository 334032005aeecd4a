"""``variorum size``: what models cost, term by term for one, side by side for several, or what fits a memory."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from variorum.cli.output import Column, chosen, emit, table
from variorum.cli.specs import head_choice, in_bytes, in_flops, in_ranges, resolve, said
from variorum.errors import UsageError

if TYPE_CHECKING:
    from variorum.spec.fit import Fit
    from variorum.spec.model import Model
    from variorum.spec.size import LayerSize, Size


def command(
    *models: str,
    context: int | None = None,
    batch: int | None = None,
    dtype: str | None = None,
    head: str = "published",
    fit: str | None = None,
    formulas: bool = False,
    measure: bool = False,
    device: str = "cpu",
    set: tuple[str, ...] = (),
) -> None:
    """Parameters, FLOPs, cache and activations: exact, from the spec, with the formula of each term.

    Args:
        models: One model for its full account, several for a table; each a model, a published size or a spec file.
        context: Tokens of each sequence; as many as it was trained on, if absent.
        batch: Sequences; 1 if absent.
        dtype: Of weights, cache and activations: float64, float32, float16, bfloat16 or int8; float16 if absent, and
            float32 with --measure.
        head: A head to count, none for the bare model, or published: the head that published counts include.
        fit: A memory such as 24GiB: the longest context that it holds with weights and cache alone, or the largest
            batch for a given --context.
        formulas: Every term with its formula.
        measure: Build each model with fresh weights, run it, and tell what was seen beside what is predicted.
        device: Where --measure runs: cpu, cuda or cuda:N.
        set: A change as path=value, such as encoder.block.attention.kv_heads=4; of every model named.
    """
    if not models:
        raise UsageError("no model is named", remedy="see variorum tree for those known")
    specs = [resolve(name, set) for name in models]
    if fit is not None:
        _fits(specs, fit, head_choice(head), context, batch, dtype or "float16")
        return
    from variorum.spec.size import size

    numbers = dtype or ("float32" if measure else "float16")
    found = [size(m, head=head_choice(head), context=context, batch=batch or 1, dtype=numbers) for m in specs]
    if measure:
        from variorum.cli.measured import tell

        tell(specs, found, device)
        return
    rows = [{**vars(one), **_shape(model)} for model, one in zip(specs, found, strict=True)]
    if chosen() == "jsonl" or len(found) > 1:
        emit(rows, human="\n".join(_table(rows, told=context is not None or batch is not None)))
    else:
        emit(rows[0], human="\n".join(_account(specs[0], found[0], formulas)))
    if formulas and len(found) > 1 and chosen() == "human":
        for one in found:
            print("\n" + "\n".join([one.name, *_terms(one)]))


def _bytes(value: object) -> str:
    return in_bytes(value) if isinstance(value, int) else ""


def _flops(value: object) -> str:
    return in_flops(value) if isinstance(value, int) else ""


def _shape(model: Model) -> dict[str, object]:
    """The figures by which papers name a size: of each stack its depth, of the main one its heads."""
    arch = model.architecture
    recurrent = {} if arch.recurrent is None else {"recurrent": arch.recurrent.depth}
    attention = arch.main.block.attention if arch.stacks else None
    return {
        "depth": {name: stack.depth for name, stack in arch.stacks.items()} | recurrent,
        "width": arch.width,
        "heads": getattr(attention, "heads", None),
        "kv_heads": getattr(attention, "kv_heads", None),
        "head_dim": getattr(attention, "head_dim", None),
        "published": model.published,
    }


def _table(rows: list[dict[str, Any]], *, told: bool) -> list[str]:
    """Models side by side; what depends on the length only where one was ``told``."""
    shown = [
        {
            **row,
            "layers": " + ".join(str(depth) for depth in row["depth"].values()),
            "heads Q/KV": f"{row['heads']}/{row['kv_heads'] or 'latent'}" if row["heads"] else "",
            "published": in_short(row["published"]) if row["published"] else "",
        }
        for row in rows
    ]
    columns: list[str | Column] = [
        Column("name", "model"), "layers", "width", "heads Q/KV", "head_dim", "parameters",
        *(["active"] if any(row["active"] != row["parameters"] for row in rows) else []),
        "published",
        Column("weight_bytes", "weights", _bytes),
        Column("flops", "FLOPs/token", _flops),
        Column("cache_per_token", "cache B/token"),
    ]  # fmt: skip
    if told:
        columns += [
            Column("cache", "cache", _bytes), Column("activations", "activations", _bytes),
            Column("context", "tokens"), "batch",
        ]  # fmt: skip
    return table(shown, columns)


def _account(model: Model, size: Size, formulas: bool) -> list[str]:
    heads = f"with {', '.join(size.heads)}" if size.heads else "without a head"
    quoted = f"  (published as {in_billions(model.published)})" if model.published else ""
    both = model.architecture.encoder is not None and model.architecture.decoder is not None
    lines = [
        f"{size.name} {heads}, {size.context:,} tokens × batch {size.batch}, {size.dtype}",
        "",
        f"parameters        {size.parameters:,}{quoted}",
    ]
    if size.active != size.parameters:
        lines.append(f"used by a token   {size.active:,}")
    parts = max(len(part) for part in size.parts)
    lines += [f"  {part:<{parts}}  {n:>17,}  {n / size.parameters:6.1%}" for part, n in size.parts.items()]
    lines += [
        f"weights           {in_bytes(size.weight_bytes)}",
        f"FLOPs per token   {in_flops(size.flops)}{' (one source and one target token)' if both else ''}",
        f"one whole pass    {in_flops(size.forward_flops)}",
        f"cache per token   {size.cache_per_token:,} B"
        + (f", and {size.cross_per_token:,} B for each source token" if size.cross_per_token else ""),
        f"cache             {in_bytes(size.cache) if size.cache else 'none: an encoder reads each text at once'}",
        f"activations       {in_bytes(size.activations)} written in one pass,"
        f" and {in_bytes(size.attention_maps)} of attention maps in the eager backend",
        f"longest input     {_longest(size)}",
        "",
        *_layers(size),
    ]
    return [*lines, "", *_terms(size)] if formulas else lines


def in_short(count: float) -> str:
    """A parameter count as tables quote it."""
    return f"{count / 1e9:g}B" if count >= 1e9 else f"{count / 1e6:g}M"


def in_billions(count: float) -> str:
    """A parameter count as papers quote it."""
    return f"{count / 1e9:g} billion" if count >= 1e9 else f"{count / 1e6:g} million"


def _longest(size: Size) -> str:
    if size.longest is not None:
        return f"{size.longest:,} tokens, the rows of the position table"
    trained = f"; trained on {size.trained_length:,} tokens" if size.trained_length else ""
    reach = f"; its windows carry {size.reach:,} tokens through all layers" if size.reach else ""
    return f"positions set no limit{trained}{reach}"


def _layers(size: Size) -> list[str]:
    """Layers that cost the same on one line each."""

    def costs(layer: LayerSize) -> tuple[object, ...]:
        return layer.stack, layer.parameters, layer.flops, layer.cache, layer.activations

    alike: dict[tuple[object, ...], list[LayerSize]] = {}
    for layer in size.layers:
        alike.setdefault(costs(layer), []).append(layer)
    rows = [
        {
            "each of layers": f"{members[0].stack} {in_ranges([layer.index for layer in members])}",
            "parameters": members[0].parameters,
            "FLOPs/token": in_flops(members[0].flops),
            "cache": in_bytes(members[0].cache),
            "activations": in_bytes(members[0].activations),
        }
        for members in alike.values()
    ]
    return table(rows)


def _terms(size: Size) -> list[str]:
    lines: list[str] = []
    for of, members in itertools.groupby(size.terms, key=lambda term: term.of):
        rows = [
            {
                "of": f"{of}{f' per {term.per}' if term.per else ''}",
                "part": term.part,
                "tensor": term.name,
                "formula": term.formula,
                "value": term.value,
            }
            for term in members
        ]
        lines += [*([""] if lines else []), *table(rows)]
    letters = (
        f"B {size.batch}; T {size.context:,} tokens; S those of a source; D width; H query heads; K key heads;"
        " d channels of a head; F feed-forward width; V vocabulary; E experts, k of them active; R rank; r latent rank."
    )
    return [*lines, "", letters]


def _fits(
    specs: list[Model], memory: str, head: str | None, context: int | None, batch: int | None, dtype: str
) -> None:
    from variorum.spec.fit import fit, parse_bytes

    room = parse_bytes(memory)
    found = [fit(m, room, head=head, context=context, batch=batch, dtype=dtype) for m in specs]
    emit(found if len(found) > 1 or chosen() == "jsonl" else found[0], human="\n".join(map(_answer, found)))


def _answer(fit: Fit) -> str:
    reason = {"memory": "", "positions": ", all that its position table has", "nothing": ""}[fit.limited_by]
    if fit.solved == "context":
        what = "a text of any length" if fit.context is None else f"{fit.context:,} tokens"
        batch = f" in each of {fit.batch:,} sequences" if fit.batch and fit.batch > 1 else ""
        answer = f"holds {what}{batch}{reason}"
        if fit.context is None:
            answer += " (its cache stops growing)" if fit.cache else " (it keeps no cache)"
    elif fit.solved == "batch":
        answer = (
            f"holds {'any number of' if fit.batch is None else said(fit.batch)} sequences of {fit.context:,} tokens"
        )
    else:
        answer = f"holds {said(fit.batch)} sequences of {said(fit.context)} tokens"
    return (
        f"{fit.name}: {in_bytes(fit.memory)} {answer}"
        f"; weights {in_bytes(fit.weights)}, cache {in_bytes(fit.cache)}, {fit.dtype}; activations come on top"
    )
