"""The named tensors of one stack: input, layers, inserts; see :mod:`variorum.spec.shapes`."""

from __future__ import annotations

from variorum.spec.architecture import Layer, Stack
from variorum.spec.attention import Attention, LatentAttention
from variorum.spec.feedforward import MLP, Experts, GatedMLP
from variorum.spec.inputs import AnyInput, PatchInput, TokenInput
from variorum.spec.named import ONE, Axis, Named, Rows, Scene, keys_seen, linear, norm_rows
from variorum.spec.positions import (
    Alibi,
    AttentionPositions,
    Disentangled,
    Learned,
    RecurrentRelative,
    RelativeBuckets,
)


def stack_rows(at: str, stack: Stack, scene: Scene) -> Rows:
    """The rows of a whole stack, below the name ``at``."""
    stream = (*scene.lead, scene.width)
    yield from _input(f"{at}.input", stack.input, scene)
    for index in range(stack.depth):
        layer = stack.layer(index)
        yield from layer_rows(
            f"{at}.layers.{index}", layer, scene, f"{at}.positions" if index == 0 else None, stack.mask
        )
        if index in stack.inserts:
            insert, here = stack.inserts[index], f"{at}.inserts.{index}"
            fan = Axis(f"{insert.kernel}·D/{insert.groups}", insert.kernel * scene.width.size // insert.groups)
            conv = linear(f"{here}.conv", scene.lead, fan, scene.width)
            yield conv._replace(axes=(scene.batch, scene.width, scene.tokens))
            yield Named(f"{here}.norm", stream)
            yield Named(here, stream, written=False)
    yield from norm_rows(f"{at}.final_norm", stack.final_norm, stream)
    yield Named(at, stream, written=False)


def _input(at: str, inputs: AnyInput, scene: Scene) -> Rows:
    if isinstance(inputs, TokenInput):
        yield from token_rows(at, inputs, scene)
        return
    stream = (*scene.lead, scene.width)
    if isinstance(inputs, PatchInput):
        side, p = inputs.image // inputs.patch, Axis(f"{inputs.channels}·P²", inputs.channels * inputs.patch**2)
        patches = (scene.batch, Axis("side", side), Axis("side", side))
        cut = linear(f"{at}.patches", patches, p, scene.width)
        yield cut._replace(axes=(scene.batch, scene.width, *patches[1:]))
    else:
        frames = Axis(f"2·{scene.tokens.letters}", 2 * scene.tokens.size)
        for name, length, fan in (("conv1", frames, Axis("M", inputs.mels)), ("conv2", scene.tokens, scene.width)):
            wide = Axis(f"{inputs.kernel}·{fan.letters}", inputs.kernel * fan.size)
            conv = linear(f"{at}.{name}", (scene.batch, length), wide, scene.width)
            yield conv._replace(axes=(scene.batch, scene.width, length))
    if isinstance(inputs.positions, Learned):
        yield Named(f"{at}.positions", (ONE, scene.tokens, scene.width))
    yield Named(at, stream, written=False)


def token_rows(at: str, inputs: TokenInput, scene: Scene) -> Rows:
    """The rows of an input of token ids."""
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
            yield linear(f"{at}.table.projects.{index}", scene.lead, axis, scene.width)
    yield Named(f"{at}.table", stream)
    if inputs.segments:
        yield Named(f"{at}.segments", once)
    if isinstance(inputs.positions, Learned):
        yield Named(f"{at}.positions", once)
    yield from norm_rows(f"{at}.norm", inputs.norm, stream)
    if inputs.rank is not None and inputs.clusters is None:
        yield linear(f"{at}.project", scene.lead, rank, scene.width)
    yield Named(at, (*scene.lead, scene.width), written=False)


def layer_rows(at: str, layer: Layer, scene: Scene, shared: str | None, mask: str) -> Rows:
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
    yield linear(f"{at}.query", scene.lead, scene.width, inner)
    yield from norm_rows(f"{at}.query_norm", a.qk_norm, (scene.batch, heads, scene.tokens, d))
    read = scene.batch, scene.read or scene.tokens
    yield linear(f"{at}.key", read, scene.width, kv)
    yield from norm_rows(f"{at}.key_norm", a.qk_norm, (scene.batch, Axis("K", a.kv_heads), read[1], d))
    yield linear(f"{at}.value", read, scene.width, kv)
    yield from _positions(at, a, positions, scene, shared)
    seen = keys_seen(a.window, causal, scene.keys.size)
    yield from _mixing(at, scene, scene.keys, seen, a.window, heads, d, d)
    yield linear(f"{at}.out", scene.lead, inner, scene.width)
    yield Named(at, (*scene.lead, scene.width), written=False)


def _positions(at: str, a: Attention, positions: AttentionPositions | None, scene: Scene, shared: str | None) -> Rows:
    d, inner, _, heads = _axes(a)
    if isinstance(positions, RelativeBuckets) and shared:
        yield Named(f"{shared}.table", (ONE, scene.tokens, scene.keys, heads), module=False)
        yield Named(shared, (ONE, heads, scene.tokens, scene.keys), written=False)
    if isinstance(positions, Alibi) and shared:
        yield Named(f"{shared}.bias", (ONE, heads, scene.tokens, scene.keys), module=False)
    if isinstance(positions, Disentangled):
        span = Axis("2·span", 2 * positions.span)
        if shared:
            yield from norm_rows(f"{shared}.norm", positions.norm, (span, scene.width))
            yield Named(shared, (span, scene.width), written=False)
        own = f"{at}.positions" if positions.projections == "own" else at
        for term, projection in (("c2p", "key"), ("p2c", "query")):
            if term in positions.terms:
                yield linear(f"{own}.{projection}", (span,), scene.width, inner)
                lead = (scene.batch, heads, scene.tokens)
                yield linear(f"{at}.{term}", lead, d, span, module=False)._replace(formula="2·2·span·H·d")
    if isinstance(positions, RecurrentRelative):
        ahead, back = scene.tokens.size - 1, scene.keys.size - 1
        if positions.clamp is not None:
            ahead, back = min(ahead, positions.clamp), min(back, positions.clamp)
        both = ahead == back == scene.keys.size - 1
        distances = Axis(f"2·{scene.keys.letters}-1" if both else "distances", back + ahead + 1)
        yield linear(f"{at}.positions.relative", (distances,), scene.width, inner)
        lead = (scene.batch, heads, scene.tokens)
        by_distance = linear(f"{at}.by_distance", lead, d, distances, module=False)
        yield by_distance._replace(formula=f"2·({distances.letters})·H·d")


def _cross(at: str, a: Attention, scene: Scene) -> Rows:
    assert scene.source is not None
    d, inner, kv, heads = _axes(a)
    source = (scene.batch, scene.source._replace(size=_source_tokens(scene)))
    yield linear(f"{at}.key", source, scene.width, kv)
    yield from norm_rows(f"{at}.key_norm", a.qk_norm, (scene.batch, Axis("K", a.kv_heads), source[1], d))
    yield linear(f"{at}.value", source, scene.width, kv)
    yield linear(f"{at}.query", scene.lead, scene.width, inner)
    yield from norm_rows(f"{at}.query_norm", a.qk_norm, (scene.batch, heads, scene.tokens, d))
    yield from _mixing(at, scene, scene.source, scene.source.size, None, heads, d, d)
    yield linear(f"{at}.out", scene.lead, inner, scene.width)


def _source_tokens(scene: Scene) -> int:
    """Source tokens projected in this pass: one where a single token stands for each, all of them otherwise."""
    assert scene.source is not None
    return 1 if scene.keys.size > scene.tokens.size else scene.source.size


def _latent(at: str, a: LatentAttention, scene: Scene, causal: bool) -> Rows:
    inner, rank = Axis("H·d", a.heads * a.head_dim), Axis("r", a.kv_rank)
    if a.query_rank is None:
        yield linear(f"{at}.query", scene.lead, scene.width, inner)
    else:
        low = Axis("r_q", a.query_rank)
        yield linear(f"{at}.query_down", scene.lead, scene.width, low)
        yield Named(f"{at}.query_norm", (*scene.lead, low))
        yield linear(f"{at}.query_up", scene.lead, low, inner)
    yield linear(f"{at}.latent_down", scene.lead, scene.width, Axis("(r+rope)", a.kv_rank + a.rope_dim))
    yield Named(f"{at}.latent_norm", (*scene.lead, rank))
    yield linear(f"{at}.latent_up", scene.lead, rank, Axis("H·(nope+v)", a.heads * (a.nope_dim + a.value_dim)))
    heads, seen = Axis("H", a.heads), keys_seen(a.window, causal, scene.keys.size)
    yield from _mixing(at, scene, scene.keys, seen, a.window, heads, Axis("d", a.head_dim), Axis("v", a.value_dim))
    yield linear(f"{at}.out", scene.lead, Axis("H·v", a.heads * a.value_dim), scene.width)
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
        yield linear(f"{at}.{name}", lead, width, inner)
    yield Named(f"{at}.activated", (*lead, inner), module=False)
    yield linear(f"{at}.down", lead, inner, width)


def _experts(at: str, ff: Experts, scene: Scene) -> Rows:
    tokens = Axis(f"B·{scene.tokens.letters}", scene.batch.size * scene.tokens.size)
    active, inner = Axis("k", ff.active), Axis("F", ff.width)
    chosen = Axis(f"{tokens.letters}·k", tokens.size * ff.active)
    scored = linear(f"{at}.router", (tokens,), scene.width, Axis("E", ff.count))
    yield scored._replace(axes=(tokens, active))
    yield Named(f"{at}.experts.activated", (chosen, inner), module=False)
    flops = 3 * 2 * chosen.size * scene.width.size * ff.width
    yield Named(f"{at}.experts", (tokens, scene.width), flops, "k·3·2·D·F")
    if ff.shared_width:
        shared = GatedMLP(width=ff.shared_width, activation=ff.activation)
        yield from _mlp(f"{at}.shared", (tokens,), scene.width, shared, "F_s")
        yield Named(f"{at}.shared", (tokens, scene.width), written=False)
    if ff.shared_gate:
        yield linear(f"{at}.shared_gate", (tokens,), scene.width, ONE)
