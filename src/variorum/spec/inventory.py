"""Every trained tensor of an architecture by its canonical name and shape, without building it.

The built model has exactly these parameters; ``size`` sums them, ``show`` lists them, checkpoints are checked
against them. Shared and tied tensors appear once, under the name of their first owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from variorum.spec.architecture import Architecture, Layer, Layout, Stack
from variorum.spec.attention import AnyAttention, GlobalLocalAttention, LatentAttention
from variorum.spec.feedforward import MLP, AnyFeedForward, Experts, GatedMLP, SigmoidRouter
from variorum.spec.heads import (
    AdaptiveSoftmax,
    EmbeddingHead,
    EnhancedMaskDecoder,
    Head,
    SequenceHead,
    SpanHead,
    TokenHead,
    Transform,
    TwoWayHead,
    VocabularyHead,
)
from variorum.spec.inputs import AnyInput, PatchInput, TokenInput
from variorum.spec.norms import LayerNorm, Norm
from variorum.spec.positions import Disentangled, Learned, RecurrentRelative, RelativeBuckets
from variorum.spec.recurrent import Recurrent

Shape = tuple[int, ...]
Tensors = Iterator[tuple[str, Shape]]


def tensors(arch: Architecture, heads: Sequence[str] = ()) -> dict[str, Shape]:
    """Canonical name -> shape of every trained tensor, with the named heads."""
    found: dict[str, Shape] = {}
    for name, stack in arch.stacks.items():
        found.update(_under(name, _stack(stack, arch.width)))
    if arch.recurrent is not None:
        found.update(_under("recurrent", _recurrent(arch.recurrent, arch.width // 2)))
    if arch.pooler is not None and wants_pooler(arch, heads):
        found.update(_under("pooler.dense", _linear(arch.width, arch.width, True)))
    for head in heads:
        found.update(_under(f"heads.{head}", _head(arch.heads[head], arch)))
    return found


def constants(arch: Architecture, heads: Sequence[str] = ()) -> dict[str, Shape]:
    """Canonical name -> shape of what is kept with the weights but never trained, nor counted among them."""
    chosen = {name: arch.heads[name] for name in heads}
    offsets = (name for name, head in chosen.items() if isinstance(head, VocabularyHead) and head.offset)
    return {f"heads.{name}.offset": (arch.vocab,) for name in offsets}


def wants_pooler(arch: Architecture, heads: Sequence[str]) -> bool:
    """Whether a model with these heads holds the pooler: the bare model does, and heads that read it do."""
    if arch.pooler is None:
        return False
    chosen = [arch.heads[name] for name in heads]
    return not chosen or any(isinstance(h, SequenceHead) and h.take == "pooler" for h in chosen)


def _under(prefix: str, items: Tensors) -> Tensors:
    return ((f"{prefix}.{name}", shape) for name, shape in items)


def _linear(fan_in: int, fan_out: int, bias: bool) -> Tensors:
    yield "weight", (fan_out, fan_in)
    if bias:
        yield "bias", (fan_out,)


def _norm(norm: Norm | None, width: int) -> Tensors:
    if norm is not None:
        yield "weight", (width,)
        if isinstance(norm, LayerNorm) and norm.bias:
            yield "bias", (width,)


def _stack(stack: Stack, width: int) -> Tensors:
    yield from _under("input", _input(stack.input, width))
    yield from _under("positions", _shared_positions(stack, width))
    for index in range(stack.depth):
        yield from _under(f"layers.{index}", _layer(stack, index, width))
        if index in stack.inserts:
            conv = stack.inserts[index]
            yield f"inserts.{index}.conv.weight", (width, width // conv.groups, conv.kernel)
            yield f"inserts.{index}.conv.bias", (width,)
            yield from _under(f"inserts.{index}.norm", _norm(conv.norm, width))
    yield from _under("final_norm", _norm(stack.final_norm, width))


def _input(inputs: AnyInput, width: int) -> Tensors:
    if isinstance(inputs, TokenInput):
        yield from _token_input(inputs, width)
        return
    if isinstance(inputs, PatchInput):
        yield "first", (width,)
        yield "patches.weight", (width, inputs.channels, inputs.patch, inputs.patch)
        yield "patches.bias", (width,)
    else:
        for name, fan_in in (("conv1", inputs.mels), ("conv2", width)):
            yield f"{name}.weight", (width, fan_in, inputs.kernel)
            yield f"{name}.bias", (width,)
    if isinstance(inputs.positions, Learned):
        yield "positions.weight", (inputs.positions.rows, width)


def _token_input(inputs: TokenInput, width: int) -> Tensors:
    rank = inputs.rank or width
    if inputs.clusters is not None:
        yield from _under("table", _clusters(inputs, width))
        rank = width
    elif inputs.tie is None:
        yield "table.weight", (inputs.vocab, rank)
    if isinstance(inputs.positions, Learned):
        yield "positions.weight", (inputs.positions.rows, rank)
    if inputs.segments:
        yield "segments.weight", (inputs.segments, rank)
    yield from _under("norm", _norm(inputs.norm, rank))
    if inputs.rank is not None and inputs.clusters is None:
        yield from _under("project", _linear(rank, width, True))
    if inputs.query_vector:
        yield "query_vector", (width,)


def _clusters(inputs: TokenInput, width: int) -> Tensors:
    assert inputs.clusters is not None
    for index, (rows, rank) in enumerate(inputs.clusters.tables(inputs.vocab, inputs.rank or width)):
        yield f"tables.{index}.weight", (rows, rank)
        yield f"projects.{index}.weight", (width, rank)


def _shared_positions(stack: Stack, width: int) -> Tensors:
    positions = stack.positions
    if isinstance(positions, RelativeBuckets):
        yield "table.weight", (positions.buckets, stack.block.attention.heads)
    if isinstance(positions, Disentangled):
        yield "table.weight", (2 * positions.span, width)
        yield from _under("norm", _norm(positions.norm, width))


def _layer(stack: Stack, index: int, width: int) -> Tensors:
    layer = stack.layer(index)
    if stack.owner(index, "attention") == index:
        yield from _under("attention", _attention(layer.attention, width))
        yield from _under("attention.positions", _layer_positions(layer, width))
        yield from _norms("attention", layer.layout, width)
    if layer.cross is not None:
        yield from _under("cross", _attention(layer.cross, width))
        yield from _norms("cross", layer.layout, width)
    if stack.owner(index, "feedforward") == index:
        yield from _under("feedforward", feedforward_tensors(layer.feedforward, width))
        yield from _norms("feedforward", layer.layout, width)


def _norms(sublayer: str, layout: Layout, width: int) -> Tensors:
    for place in (one for one in getattr(layout, sublayer) if one != "shared"):
        yield from _under(f"{sublayer}_norms.{place}", _norm(layout.norm, width))


def _attention(attention: AnyAttention, width: int) -> Tensors:
    if isinstance(attention, LatentAttention):
        yield from _latent(attention, width)
        return
    inner, shared = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
    for name, fan_out in (("query", inner), ("key", shared), ("value", shared)):
        yield from _under(name, _linear(width, fan_out, name in attention.bias))
        if isinstance(attention, GlobalLocalAttention):
            yield from _under(f"{name}_global", _linear(width, fan_out, name in attention.bias))
    yield from _under("out", _linear(inner, width, "out" in attention.bias))
    for name in ("query_norm", "key_norm"):
        yield from _under(name, _norm(attention.qk_norm, attention.head_dim))


def _latent(a: LatentAttention, width: int) -> Tensors:
    inner = a.heads * a.head_dim
    if a.query_rank is None:
        yield from _under("query", _linear(width, inner, False))
    else:
        yield from _under("query_down", _linear(width, a.query_rank, a.bias))
        yield from _under("query_norm", _norm(a.norm, a.query_rank))
        yield from _under("query_up", _linear(a.query_rank, inner, False))
    yield from _under("latent_down", _linear(width, a.kv_rank + a.rope_dim, a.bias))
    yield from _under("latent_norm", _norm(a.norm, a.kv_rank))
    yield from _under("latent_up", _linear(a.kv_rank, a.heads * (a.nope_dim + a.value_dim), False))
    yield from _under("out", _linear(a.heads * a.value_dim, width, a.bias))


def _layer_positions(layer: Layer, width: int) -> Tensors:
    positions, attention = layer.positions, layer.attention
    inner = attention.heads * attention.head_dim
    if isinstance(positions, Disentangled) and positions.projections == "own":
        if "c2p" in positions.terms:
            yield from _under("key", _linear(width, inner, positions.key_bias))
        if "p2c" in positions.terms:
            yield from _under("query", _linear(width, inner, True))
    if isinstance(positions, RecurrentRelative):
        yield from _under("relative", _linear(width, inner, False))
        yield "content_bias", (attention.heads, attention.head_dim)
        yield "position_bias", (attention.heads, attention.head_dim)
        if positions.segments:
            yield "segment_bias", (attention.heads, attention.head_dim)
            yield "segments", (2, attention.heads, attention.head_dim)


def feedforward_tensors(ff: AnyFeedForward, width: int) -> Tensors:
    """The tensors of one feed-forward part. Experts are stacked along the first axis."""
    if isinstance(ff, MLP):
        yield from _under("up", _linear(width, ff.width, ff.bias))
        yield from _under("down", _linear(ff.width, width, ff.bias))
    elif isinstance(ff, GatedMLP):
        yield from _under("gate", _linear(width, ff.width, ff.bias))
        yield from _under("up", _linear(width, ff.width, ff.bias))
        yield from _under("down", _linear(ff.width, width, ff.bias))
    elif isinstance(ff, Experts):
        yield "router.weight", (ff.count, width)
        if isinstance(ff.router, SigmoidRouter):
            yield "router.correction", (ff.count,)
        yield "experts.gate", (ff.count, ff.width, width)
        yield "experts.up", (ff.count, ff.width, width)
        yield "experts.down", (ff.count, width, ff.width)
        if ff.shared_width:
            shared = GatedMLP(width=ff.shared_width, activation=ff.activation)
            yield from _under("shared", feedforward_tensors(shared, width))
        if ff.shared_gate:
            yield "shared_gate.weight", (1, width)


def _transform(transform: Transform | None, width: int) -> Tensors:
    if transform is not None:
        out = transform.width or width
        yield from _under("transform.dense", _linear(width, out, transform.bias))
        yield from _under("transform.norm", _norm(transform.norm, out))


def _recurrent(recurrent: Recurrent, half: int) -> Tensors:
    yield from _under("input", _input(recurrent.input, half))
    cells = recurrent.cells or half
    for index in range(recurrent.depth):
        for side in ("from_left", "from_right"):
            at = f"layers.{index}.{side}"
            yield from _under(f"{at}.gates", _linear(half, 4 * cells, True))
            yield f"{at}.state.weight", (4 * cells, half)
            if recurrent.cells is not None:
                yield f"{at}.out.weight", (half, cells)
    yield "mix.weights", (recurrent.depth + 1,)
    yield "mix.scale", (1,)


def tied(head: Head, stack: Stack | None) -> dict[str, str]:
    """What a head borrows: its own name for a tensor -> the canonical name of its owner."""
    if isinstance(head, VocabularyHead | TwoWayHead) and head.tie is not None:
        return {"project.weight": f"{head.tie}.weight"}
    clusters = None if stack is None else getattr(stack.input, "clusters", None)
    if not isinstance(head, AdaptiveSoftmax) or head.tie is None or clusters is None:
        return {}
    tables = {f"tables.{index}.weight" for index in range(len(clusters.cutoffs) + 1)}
    projects = {f"projects.{index}.weight" for index in head.tied_projections}
    return {name: f"{head.tie}.{name}" for name in sorted(tables | projects)}


def _adaptive(head: AdaptiveSoftmax, arch: Architecture) -> Tensors:
    words, borrowed = arch.main.tokens, tied(head, arch.main)
    yield from ((name, shape) for name, shape in _clusters(words, arch.width) if name not in borrowed)
    assert words.clusters is not None
    for index, (rows, _) in enumerate(words.clusters.tables(words.vocab, arch.width)):
        yield f"tables.{index}.bias", (rows,)
    yield from _under("clusters", _linear(words.rank or arch.width, len(words.clusters.cutoffs), True))


def _head(head: Head, arch: Architecture) -> Tensors:
    if isinstance(head, AdaptiveSoftmax):
        yield from _adaptive(head, arch)
        return
    if isinstance(head, SpanHead):
        yield from _under("start", _linear(arch.width, 1, True))
        for name in ("end", "no_answer"):
            yield from _under(f"{name}.dense", _linear(2 * arch.width, arch.width, True))
            yield from _under(f"{name}.norm", _norm(head.norm if name == "end" else None, arch.width))
            yield from _under(f"{name}.project", _linear(arch.width, 1, name == "end"))
        return
    if isinstance(head, EmbeddingHead):
        return
    if isinstance(head, TwoWayHead):
        if head.tie is None:
            yield "project.weight", (arch.vocab, arch.width // 2)
        if head.bias:
            yield "project.bias", (arch.vocab,)
        return
    yield from _transform(head.transform, arch.width)
    width = head.transform.width or arch.width if head.transform else arch.width
    if isinstance(head, EnhancedMaskDecoder):
        yield "positions.weight", (head.rows, arch.width)
    if isinstance(head, TokenHead):
        yield from _under("context", _norm(head.context, arch.width))
    if isinstance(head, VocabularyHead):
        vocab = arch.vocab
        if head.tie is None:
            yield "project.weight", (vocab, width)
        if head.bias:
            yield "project.bias", (vocab,)
    elif isinstance(head, SequenceHead | TokenHead):
        yield from _under("project", _linear(width, head.labels, head.bias))


__all__ = ["Shape", "constants", "feedforward_tensors", "tensors", "tied", "wants_pooler"]
