"""Every named tensor of one forward pass, with its axes and what it costs to make, from the spec alone.

Names are those of the built model's modules, in the order in which they finish; what happens inside a module (attention
maps, activated feed-forward) is listed too, and marked. ``size`` sums these rows; the ``shapes`` command prints them.
Nothing here needs a built model, and nothing here knows a model by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from variorum.spec.architecture import Architecture, Layer, Stack
from variorum.spec.attention import Attention, LatentAttention
from variorum.spec.feedforward import MLP, Experts, GatedMLP
from variorum.spec.heads import (
    AdaptiveSoftmax,
    EmbeddingHead,
    EnhancedMaskDecoder,
    Head,
    SequenceHead,
    SpanHead,
    TokenHead,
    TwoWayHead,
    VocabularyHead,
)
from variorum.spec.inputs import AnyInput, PatchInput, TokenInput
from variorum.spec.inventory import wants_pooler
from variorum.spec.norms import Norm
from variorum.spec.positions import (
    Alibi,
    AttentionPositions,
    Disentangled,
    Learned,
    RecurrentRelative,
    RelativeBuckets,
)
from variorum.spec.recurrent import Recurrent


class Axis(NamedTuple):
    """One axis: the letters that stand for it, and how long it is."""

    letters: str
    size: int


class Named(NamedTuple):
    """One tensor.

    ``flops`` is what making it costs, two a multiply-add, and ``formula`` the same per token in letters (per pass where
    no axis is a token). ``module`` says whether a module of this name puts it out; ``written`` whether it is new memory
    rather than another row's under a second name (attention maps, which fused kernels never write, are not).
    """

    name: str
    axes: tuple[Axis, ...]
    flops: int = 0
    formula: str = ""
    module: bool = True
    written: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def letters(self) -> str:
        """The axes in letters, as in ``B T H·d``."""
        return " ".join(axis.letters for axis in self.axes)

    @property
    def per(self) -> str:
        """What it is made once for: a ``token``, a ``sequence``, or the whole ``pass``."""
        letters = {axis.letters for axis in self.axes}
        if letters & TOKENS:
            return "token"
        return "sequence" if "B" in letters else "pass"


TOKENS = {"T", "S", "M+T", "B·T", "B·S", "B·T·k", "B·S·k"}
ONE = Axis("1", 1)
Rows = Iterator[Named]


class Scene(NamedTuple):
    """What a stack runs on: its batch, tokens and keys, the width, and an encoder's tokens where it crosses over.

    ``read`` are the tokens whose keys and values are made, where remembered ones are among them.
    """

    batch: Axis
    tokens: Axis
    keys: Axis
    width: Axis
    source: Axis | None = None
    read: Axis | None = None

    @property
    def lead(self) -> tuple[Axis, Axis]:
        """The two axes of a token stream."""
        return self.batch, self.tokens


def forward(
    arch: Architecture, *, heads: Sequence[str] = (), batch: int = 1, length: int, target: int | None = None,
    context: int | None = None,
) -> list[Named]:  # fmt: skip
    """Every tensor of one forward pass without padding, cache or segment ids.

    Args:
        arch: what runs.
        heads: the heads that it carries.
        batch: sequences.
        length: tokens of each (of the source, where there are an encoder and a decoder).
        target: tokens of the decoder beside an encoder; ``length`` if absent.
        context: keys that each query may reach; the tokens themselves if absent. With ``length`` 1 this is one step of
            decoding.
    """
    width, b = Axis("D", arch.width), Axis("B", batch)
    rows: list[Named] = []
    scene, source = Scene(b, b, b, width), None
    if arch.encoder is not None:
        tokens = Axis("S" if arch.decoder is not None else "T", length)
        scene = _remembering(Scene(b, tokens, Axis(tokens.letters, context or length), width), arch.encoder)
        rows += _stack("encoder", arch.encoder, scene)
        source = scene.keys
    if arch.decoder is not None:
        tokens = Axis("T", length if source is None or target is None else target)
        scene = _remembering(Scene(b, tokens, Axis("T", context or tokens.size), width, source), arch.decoder)
        rows += _stack("decoder", arch.decoder, scene)
    if arch.recurrent is not None:
        tokens = Axis("T", length)
        scene = Scene(b, tokens, tokens, width)
        rows += _recurrent("recurrent", arch.recurrent, scene)
    if arch.pooler is not None and wants_pooler(arch, heads):
        rows += [_linear("pooler.dense", (b,), width, width), Named("pooler", (b, width), written=False)]
    for name in heads:
        rows += _head(f"heads.{name}", arch.heads[name], arch, scene)
    return rows


def _recurrent(at: str, recurrent: Recurrent, scene: Scene) -> Rows:
    half = Axis("D/2", scene.width.size // 2)
    cells = half if recurrent.cells is None else Axis("C", recurrent.cells)
    gates = Axis(f"4·{cells.letters}", 4 * cells.size)
    yield from _token_input(f"{at}.input", recurrent.input, scene._replace(width=half))
    for index in range(recurrent.depth):
        for side in ("from_left", "from_right"):
            here = f"{at}.layers.{index}.{side}"
            yield _linear(f"{here}.gates", scene.lead, half, gates)
            yield _linear(f"{here}.carried", scene.lead, half, gates, module=False)
            if recurrent.cells is not None:
                yield _linear(f"{here}.projected", scene.lead, cells, half, module=False)
            yield Named(here, (*scene.lead, half))
        yield Named(f"{at}.layers.{index}", (*scene.lead, scene.width))
    yield Named(f"{at}.mix", (*scene.lead, scene.width))
    yield Named(at, (*scene.lead, scene.width), written=False)


def _remembering(scene: Scene, stack: Stack) -> Scene:
    """The scene of a stack that makes keys and values of remembered states anew, the zeros of the first among them."""
    before = scene.keys.size - scene.tokens.size
    kept = stack.memory if stack.first_memory == "zeros" else min(before, stack.memory)
    if not kept:
        return scene
    read = Axis("M+T", kept + scene.tokens.size)
    return scene._replace(keys=read, read=read)


def keys_seen(window: int | None, causal: bool, context: int) -> int:
    """How many of ``context`` keys one query sees: W under a causal window, W/2 to each side and itself otherwise."""
    if not window:
        return context
    return min(context, window if causal else 2 * (window // 2) + 1)


def _linear(name: str, lead: tuple[Axis, ...], fan_in: Axis, out: Axis, *, module: bool = True) -> Named:
    flops = 2 * math.prod(axis.size for axis in lead) * fan_in.size * out.size
    return Named(name, (*lead, out), flops, f"2·{fan_in.letters}·{out.letters}", module)


def _norm(name: str, norm: Norm | None, axes: tuple[Axis, ...]) -> Rows:
    if norm is not None:
        yield Named(name, axes)


def _stack(at: str, stack: Stack, scene: Scene) -> Rows:
    stream = (*scene.lead, scene.width)
    yield from _input(f"{at}.input", stack.input, scene)
    for index in range(stack.depth):
        layer = stack.layer(index)
        yield from _layer(f"{at}.layers.{index}", layer, scene, f"{at}.positions" if index == 0 else None, stack.mask)
        if index in stack.inserts:
            insert, here = stack.inserts[index], f"{at}.inserts.{index}"
            fan = Axis(f"{insert.kernel}·D/{insert.groups}", insert.kernel * scene.width.size // insert.groups)
            conv = _linear(f"{here}.conv", scene.lead, fan, scene.width)
            yield conv._replace(axes=(scene.batch, scene.width, scene.tokens))
            yield Named(f"{here}.norm", stream)
            yield Named(here, stream, written=False)
    yield from _norm(f"{at}.final_norm", stack.final_norm, stream)
    yield Named(at, stream, written=False)


def _input(at: str, inputs: AnyInput, scene: Scene) -> Rows:
    if isinstance(inputs, TokenInput):
        yield from _token_input(at, inputs, scene)
        return
    stream = (*scene.lead, scene.width)
    if isinstance(inputs, PatchInput):
        side, p = inputs.image // inputs.patch, Axis(f"{inputs.channels}·P²", inputs.channels * inputs.patch**2)
        patches = (scene.batch, Axis("side", side), Axis("side", side))
        cut = _linear(f"{at}.patches", patches, p, scene.width)
        yield cut._replace(axes=(scene.batch, scene.width, *patches[1:]))
    else:
        frames = Axis(f"2·{scene.tokens.letters}", 2 * scene.tokens.size)
        for name, length, fan in (("conv1", frames, Axis("M", inputs.mels)), ("conv2", scene.tokens, scene.width)):
            wide = Axis(f"{inputs.kernel}·{fan.letters}", inputs.kernel * fan.size)
            conv = _linear(f"{at}.{name}", (scene.batch, length), wide, scene.width)
            yield conv._replace(axes=(scene.batch, scene.width, length))
    if isinstance(inputs.positions, Learned):
        yield Named(f"{at}.positions", (ONE, scene.tokens, scene.width))
    yield Named(at, stream, written=False)


def _token_input(at: str, inputs: TokenInput, scene: Scene) -> Rows:
    rank = scene.width if inputs.rank is None else Axis("R", inputs.rank)
    stream = (*scene.lead, rank)
    # One row of positions serves the batch, unless a row's own padding moves them.
    counted = isinstance(inputs.positions, Learned) and inputs.positions.count == "ids"
    once = (scene.batch if counted else ONE, scene.tokens, rank)
    if inputs.clusters is not None:
        rank, stream, once = scene.width, (*scene.lead, scene.width), (*once[:2], scene.width)
        for index, (_, inner) in enumerate(inputs.clusters.tables(inputs.vocab, inputs.rank or scene.width.size)):
            axis = Axis(f"R/{inputs.clusters.divide}^{index}", inner)
            yield Named(f"{at}.table.tables.{index}", (*scene.lead, axis))
            yield _linear(f"{at}.table.projects.{index}", scene.lead, axis, scene.width)
    yield Named(f"{at}.table", stream)
    if inputs.segments:
        yield Named(f"{at}.segments", once)
    if isinstance(inputs.positions, Learned):
        yield Named(f"{at}.positions", once)
    yield from _norm(f"{at}.norm", inputs.norm, stream)
    if inputs.rank is not None and inputs.clusters is None:
        yield _linear(f"{at}.project", scene.lead, rank, scene.width)
    yield Named(at, (*scene.lead, scene.width), written=False)


def _layer(at: str, layer: Layer, scene: Scene, shared: str | None, mask: str) -> Rows:
    """``shared`` names the stack's position tables in the layer that first asks for them."""
    stream = (*scene.lead, scene.width)
    for sublayer in ("attention", "cross", "feedforward"):
        part = getattr(layer, sublayer)
        if part is None:
            continue
        here = f"{at}.{sublayer}"
        places = getattr(layer.layout, sublayer)
        if "before" in places:
            yield Named(f"{here}_norms.before", stream)
        if sublayer == "feedforward":
            yield from feedforward(here, part, scene)
        elif sublayer == "cross":
            yield from _cross(here, part, scene)
        elif isinstance(part, LatentAttention):
            yield from _latent(here, part, scene, mask == "causal")
        else:
            yield from _attention(here, part, layer.positions, scene, shared, mask == "causal")
        for place in ("after", "join"):
            if place in places:
                yield Named(f"{here}_norms.{place}", stream)
    yield Named(at, stream)


def _mixing(at: str, scene: Scene, keys: Axis, seen: int, window: int | None, heads: Axis, qk: Axis, v: Axis) -> Rows:
    """The scores with their softmax, and the values they mix; a window counts what it shows."""
    lead = scene.batch.size * scene.tokens.size * seen * heads.size
    shown = keys.letters if not window else f"min({keys.letters}, {seen if seen < keys.size else window})"
    axes = (scene.batch, heads, scene.tokens, keys)
    yield Named(f"{at}.maps", axes, 2 * lead * qk.size, f"2·{shown}·H·{qk.letters}", module=False, written=False)
    mixed = (*scene.lead, Axis(f"H·{v.letters}", heads.size * v.size))
    yield Named(f"{at}.mixed", mixed, 2 * lead * v.size, f"2·{shown}·H·{v.letters}", module=False)


def _axes(a: Attention) -> tuple[Axis, Axis, Axis, Axis]:
    """Head channels, all query heads' channels, all key heads' channels, heads."""
    d = Axis("d", a.head_dim)
    return d, Axis("H·d", a.heads * a.head_dim), Axis("K·d", a.kv_heads * a.head_dim), Axis("H", a.heads)


def _attention(
    at: str, a: Attention, positions: AttentionPositions | None, scene: Scene, shared: str | None, causal: bool
) -> Rows:
    d, inner, kv, heads = _axes(a)
    yield _linear(f"{at}.query", scene.lead, scene.width, inner)
    yield from _norm(f"{at}.query_norm", a.qk_norm, (scene.batch, heads, scene.tokens, d))
    read = scene.batch, scene.read or scene.tokens
    yield _linear(f"{at}.key", read, scene.width, kv)
    yield from _norm(f"{at}.key_norm", a.qk_norm, (scene.batch, Axis("K", a.kv_heads), read[1], d))
    yield _linear(f"{at}.value", read, scene.width, kv)
    yield from _positions(at, a, positions, scene, shared)
    seen = keys_seen(a.window, causal, scene.keys.size)
    yield from _mixing(at, scene, scene.keys, seen, a.window, heads, d, d)
    yield _linear(f"{at}.out", scene.lead, inner, scene.width)
    yield Named(at, (*scene.lead, scene.width), written=False)


def _positions(at: str, a: Attention, positions: AttentionPositions | None, scene: Scene, shared: str | None) -> Rows:
    d, inner, _, heads = _axes(a)
    if isinstance(positions, RelativeBuckets) and shared:
        yield Named(f"{shared}.table", (ONE, scene.tokens, scene.keys, heads))
        yield Named(shared, (ONE, heads, scene.tokens, scene.keys), written=False)
    if isinstance(positions, Alibi) and shared:
        yield Named(f"{shared}.bias", (ONE, heads, scene.tokens, scene.keys), module=False)
    if isinstance(positions, Disentangled):
        span = Axis("2·span", 2 * positions.span)
        if shared:
            yield from _norm(f"{shared}.norm", positions.norm, (span, scene.width))
            yield Named(shared, (span, scene.width), written=False)
        own = f"{at}.positions" if positions.projections == "own" else at
        for term, projection in (("c2p", "key"), ("p2c", "query")):
            if term in positions.terms:
                yield _linear(f"{own}.{projection}", (span,), scene.width, inner)
                lead = (scene.batch, heads, scene.tokens)
                yield _linear(f"{at}.{term}", lead, d, span, module=False)._replace(formula="2·2·span·H·d")
    if isinstance(positions, RecurrentRelative):
        ahead, back = scene.tokens.size - 1, scene.keys.size - 1
        if positions.clamp is not None:
            ahead, back = min(ahead, positions.clamp), min(back, positions.clamp)
        both = ahead == back == scene.keys.size - 1
        distances = Axis(f"2·{scene.keys.letters}-1" if both else "distances", back + ahead + 1)
        yield _linear(f"{at}.positions.relative", (distances,), scene.width, inner, module=False)
        lead = (scene.batch, heads, scene.tokens)
        by_distance = _linear(f"{at}.by_distance", lead, d, distances, module=False)
        yield by_distance._replace(formula=f"2·({distances.letters})·H·d")


def _cross(at: str, a: Attention, scene: Scene) -> Rows:
    assert scene.source is not None
    d, inner, kv, heads = _axes(a)
    source = (scene.batch, scene.source._replace(size=_source_tokens(scene)))
    yield _linear(f"{at}.key", source, scene.width, kv)
    yield from _norm(f"{at}.key_norm", a.qk_norm, (scene.batch, Axis("K", a.kv_heads), source[1], d))
    yield _linear(f"{at}.value", source, scene.width, kv)
    yield _linear(f"{at}.query", scene.lead, scene.width, inner)
    yield from _norm(f"{at}.query_norm", a.qk_norm, (scene.batch, heads, scene.tokens, d))
    yield from _mixing(at, scene, scene.source, scene.source.size, None, heads, d, d)
    yield _linear(f"{at}.out", scene.lead, inner, scene.width)


def _source_tokens(scene: Scene) -> int:
    """Source tokens projected in this pass: one where a single token stands for each, all of them otherwise."""
    assert scene.source is not None
    return 1 if scene.keys.size > scene.tokens.size else scene.source.size


def _latent(at: str, a: LatentAttention, scene: Scene, causal: bool) -> Rows:
    inner, rank = Axis("H·d", a.heads * a.head_dim), Axis("r", a.kv_rank)
    if a.query_rank is None:
        yield _linear(f"{at}.query", scene.lead, scene.width, inner)
    else:
        low = Axis("r_q", a.query_rank)
        yield _linear(f"{at}.query_down", scene.lead, scene.width, low)
        yield Named(f"{at}.query_norm", (*scene.lead, low))
        yield _linear(f"{at}.query_up", scene.lead, low, inner)
    yield _linear(f"{at}.latent_down", scene.lead, scene.width, Axis("(r+rope)", a.kv_rank + a.rope_dim))
    yield Named(f"{at}.latent_norm", (*scene.lead, rank))
    yield _linear(f"{at}.latent_up", scene.lead, rank, Axis("H·(nope+v)", a.heads * (a.nope_dim + a.value_dim)))
    heads, seen = Axis("H", a.heads), keys_seen(a.window, causal, scene.keys.size)
    yield from _mixing(at, scene, scene.keys, seen, a.window, heads, Axis("d", a.head_dim), Axis("v", a.value_dim))
    yield _linear(f"{at}.out", scene.lead, Axis("H·v", a.heads * a.value_dim), scene.width)
    yield Named(at, (*scene.lead, scene.width), written=False)


def feedforward(at: str, ff: MLP | GatedMLP | Experts, scene: Scene) -> Rows:
    """The rows of one feed-forward part; experts see the stream flattened to its tokens."""
    out = Named(at, (*scene.lead, scene.width), written=False)
    if isinstance(ff, Experts):
        yield from _experts(at, ff, scene)
        yield out._replace(written=bool(ff.shared_width))
        return
    yield from _mlp(at, scene.lead, scene.width, ff)
    yield out


def _mlp(at: str, lead: tuple[Axis, ...], width: Axis, ff: MLP | GatedMLP, letter: str = "F") -> Rows:
    inner = Axis(letter, ff.width)
    for name in ("gate", "up") if isinstance(ff, GatedMLP) else ("up",):
        yield _linear(f"{at}.{name}", lead, width, inner)
    yield Named(f"{at}.activated", (*lead, inner), module=False)
    yield _linear(f"{at}.down", lead, inner, width)


def _experts(at: str, ff: Experts, scene: Scene) -> Rows:
    tokens = Axis(f"B·{scene.tokens.letters}", scene.batch.size * scene.tokens.size)
    active, inner = Axis("k", ff.active), Axis("F", ff.width)
    chosen = Axis(f"{tokens.letters}·k", tokens.size * ff.active)
    scored = _linear(f"{at}.router", (tokens,), scene.width, Axis("E", ff.count))
    yield scored._replace(axes=(tokens, active))
    yield Named(f"{at}.experts.activated", (chosen, inner), module=False)
    flops = 3 * 2 * chosen.size * scene.width.size * ff.width
    yield Named(f"{at}.experts", (tokens, scene.width), flops, "k·3·2·D·F")
    if ff.shared_width:
        shared = GatedMLP(width=ff.shared_width, activation=ff.activation)
        yield from _mlp(f"{at}.shared", (tokens,), scene.width, shared, "F_s")
        yield Named(f"{at}.shared", (tokens, scene.width), written=False)
    if ff.shared_gate:
        yield _linear(f"{at}.shared_gate", (tokens,), scene.width, ONE)


def _spans(at: str, head: SpanHead, scene: Scene) -> Rows:
    """Every start, every end after the best of them, and whether there is an answer."""
    width, pair = scene.width, Axis("2·D", 2 * scene.width.size)
    each = (scene.batch, Axis("starts", min(head.starts, scene.tokens.size)), scene.tokens)
    yield _linear(f"{at}.start", scene.lead, width, ONE)
    yield _linear(f"{at}.end.dense", each, pair, width)
    yield from _norm(f"{at}.end.norm", head.norm, (*each, width))
    yield _linear(f"{at}.end.project", each, width, ONE)
    mean = 2 * math.prod(axis.size for axis in (*scene.lead, width))
    yield Named(f"{at}.expected", (scene.batch, width), mean, "2·T·D", module=False)
    yield _linear(f"{at}.no_answer.dense", (scene.batch,), pair, width)
    yield _linear(f"{at}.no_answer.project", (scene.batch,), width, ONE)
    yield Named(at, scene.lead, written=False)


def _again(at: str, head: EnhancedMaskDecoder, stack: Stack, scene: Scene) -> Rows:
    """The position vectors, and the last layer as often as it runs once more."""
    yield Named(f"{at}.positions", (ONE, scene.tokens, scene.width))
    last = stack.depth - 1
    for _ in range(head.steps):
        yield from _layer(f"encoder.layers.{last}", stack.layer(last), scene, None, stack.mask)
    yield from _norm("encoder.final_norm", stack.final_norm, (*scene.lead, scene.width))


def _adaptive(at: str, words: TokenInput, scene: Scene) -> Rows:
    """Every cluster's words scored, and the clusters; they are made one after another, and put together at last."""
    assert words.clusters is not None
    tables = words.clusters.tables(words.vocab, words.rank or scene.width.size)
    for index, (rows, inner) in enumerate(tables):
        axis = Axis(f"R/{words.clusters.divide}^{index}", inner)
        yield _linear(f"{at}.inner.{index}", scene.lead, scene.width, axis, module=False)
        yield _linear(f"{at}.tables.{index}", scene.lead, axis, Axis(f"V_{index}", rows))
        if index == 0:
            yield _linear(f"{at}.clusters", scene.lead, axis, Axis("clusters", len(tables) - 1))
    yield Named(at, (*scene.lead, Axis("V", words.vocab)))


def _head(at: str, head: Head, arch: Architecture, scene: Scene) -> Rows:
    if isinstance(head, AdaptiveSoftmax):
        yield from _adaptive(at, arch.main.tokens, scene)
        return
    if isinstance(head, SpanHead):
        yield from _spans(at, head, scene)
        return
    if isinstance(head, EmbeddingHead):
        yield Named(at, (scene.batch, scene.width))
        return
    if isinstance(head, TwoWayHead):
        ways = (*scene.lead, Axis("2", 2))
        yield _linear(f"{at}.project", ways, Axis("D/2", scene.width.size // 2), Axis("V", arch.vocab))
        yield Named(at, (*ways, Axis("V", arch.vocab)), written=False)
        return
    lead: tuple[Axis, ...] = (scene.batch,) if isinstance(head, SequenceHead) else scene.lead
    width = scene.width
    if isinstance(head, EnhancedMaskDecoder):
        yield from _again(at, head, arch.main, scene)
    if isinstance(head, TokenHead) and head.context is not None:
        yield Named(f"{at}.context", (*scene.lead, width))
    if head.transform is not None:
        out = width if head.transform.width is None else Axis("D_h", head.transform.width)
        yield _linear(f"{at}.transform.dense", lead, width, out)
        yield from _norm(f"{at}.transform.norm", head.transform.norm, (*lead, out))
        yield Named(f"{at}.transform", (*lead, out), written=head.transform.norm is None)
        width = out
    if isinstance(head, VocabularyHead):
        scores = Axis("V", arch.vocab)
    else:
        assert isinstance(head, SequenceHead | TokenHead)
        scores = Axis("labels", head.labels)
    yield _linear(f"{at}.project", lead, width, scores)
    yield Named(at, (*lead, scores), written=isinstance(head, VocabularyHead) and head.softcap is not None)
