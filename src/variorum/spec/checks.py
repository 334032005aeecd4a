"""The tests behind the rules: each takes a model and yields where it breaks its rule, and what is wrong there.

Reasons and remedies stand in :mod:`variorum.spec.rules`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from variorum.spec.architecture import Architecture, Layer, Stack
from variorum.spec.attention import Attention, LatentAttention
from variorum.spec.feedforward import Experts, SigmoidRouter
from variorum.spec.heads import VocabularyHead
from variorum.spec.inputs import PatchInput, TokenInput
from variorum.spec.inventory import tensors
from variorum.spec.model import Model
from variorum.spec.paths import leaves
from variorum.spec.positions import (
    Alibi,
    Disentangled,
    DynamicNtkScaling,
    Learned,
    NtkScaling,
    RecurrentRelative,
    RelativeBuckets,
    Rotary,
)

Finding = tuple[str, str]
Found = Iterator[Finding]
SIZES = {
    "width", "depth", "vocab", "rank", "heads", "kv_heads", "head_dim", "query_rank", "kv_rank", "nope_dim", "rope_dim",
    "value_dim", "count", "active", "rows", "buckets", "span", "kernel", "groups", "active_groups", "inner", "labels",
    "starts", "ends", "steps", "original_length",
}  # fmt: skip
LIMITS = {"softcap", "clip", "max_bias"}
SUBLAYERS = ("attention", "cross", "feedforward")


def _stacks(model: Model) -> Iterator[tuple[str, Stack]]:
    for name, stack in model.architecture.stacks.items():
        yield f"architecture.{name}", stack


def _layers(model: Model) -> Iterator[tuple[str, Stack, Layer]]:
    """Every layer that differs from those before it; where it stands is said as its path."""
    for at, stack in _stacks(model):
        seen: list[Layer] = []
        for index in range(stack.depth):
            layer = stack.layer(index)
            if layer not in seen:
                seen.append(layer)
                yield (f"{at}.block" if layer == _plain(stack) else f"{at}, layer {index}"), stack, layer


def _values(model: Model) -> Iterator[tuple[str, object]]:
    """Every value of the architecture by its path, and those of layers that rules make different."""
    yield from leaves(model.architecture, "architecture")
    for at, stack, layer in _layers(model):
        if layer != _plain(stack):
            yield from leaves(layer, at)


def _plain(stack: Stack) -> Layer:
    return dataclasses.replace(stack, pattern=()).layer(0)


def sizes(model: Model) -> Found:
    """Sizes below 1."""
    for path, value in _values(model):
        if path.rpartition(".")[2] in SIZES and isinstance(value, int) and value < 1:
            yield path, f"{value} is no size"


def limits(model: Model) -> Found:
    """Caps, clips and slopes of 0 or below."""
    for path, value in _values(model):
        field = path.rpartition(".")[2]
        if field in LIMITS and isinstance(value, int | float) and not value > 0:
            yield path, f"a {field.replace('_', ' ')} of {value}"


def shared_norms(model: Model) -> Found:
    """Sublayers that share the input of one before them where there is none to share."""
    for at, _, layer in _layers(model):
        for name in SUBLAYERS:
            places = getattr(layer.layout, name)
            if "shared" in places and (layer.layout.order == "serial" or name == "attention" or "before" in places):
                why = "in serial order" if layer.layout.order == "serial" else f"as {' and '.join(places)}"
                yield f"{at}.layout.{name}", f"a shared norm {why}"


def parallel_joins(model: Model) -> Found:
    """A norm after the sum of one sublayer where all are summed at once."""
    for at, _, layer in _layers(model):
        for name in SUBLAYERS:
            if layer.layout.order == "parallel" and "join" in getattr(layer.layout, name):
                yield f"{at}.layout.{name}", "a norm of the sum in parallel order"


def normed_residuals(model: Model) -> Found:
    """A normed residual where a sublayer has no norm before it, or several have."""
    for at, _, layer in _layers(model):
        if layer.layout.residual == "input":
            continue
        if layer.layout.order == "parallel":
            yield f"{at}.layout.residual", "a normed residual in parallel order"
        for name in SUBLAYERS:
            if getattr(layer, name) is not None and "before" not in getattr(layer.layout, name):
                yield f"{at}.layout.{name}", "a normed residual without a norm before"


def kv_heads(model: Model) -> Found:
    """Key heads that do not divide the query heads."""
    for at, _, layer in _layers(model):
        for name in ("attention", "cross"):
            a = getattr(layer, name)
            if isinstance(a, Attention) and (a.kv_heads < 1 or a.heads % a.kv_heads):
                yield f"{at}.{name}.kv_heads", f"{a.kv_heads} key heads do not divide {a.heads} query heads"


def windows(model: Model) -> Found:
    """Windows below 1."""
    for at, _, layer in _layers(model):
        if layer.attention.window is not None and layer.attention.window < 1:
            yield f"{at}.attention.window", f"a window of {layer.attention.window}"


def rotary(model: Model) -> Found:
    """An odd or empty number of rotated channels."""
    for at, _, layer in _layers(model):
        if isinstance(layer.positions, Rotary):
            dims = int(getattr(layer.attention, "rope_dim", layer.attention.head_dim) * layer.positions.fraction)
            if dims < 2 or dims % 2:
                yield f"{at}.attention", f"{dims} rotated channels"


def rope_scaling(model: Model) -> Found:
    """A rotary scaling by nothing, or one that tells the first pair from the last where there is one pair."""
    for at, _, layer in _layers(model):
        scaling = getattr(layer.positions, "scaling", None)
        if not isinstance(layer.positions, Rotary) or scaling is None:
            continue
        dims = int(getattr(layer.attention, "rope_dim", layer.attention.head_dim) * layer.positions.fraction)
        if not scaling.factor > 0:
            yield f"{at}.positions.scaling.factor", f"a factor of {scaling.factor:g}"
        elif dims == 2 and isinstance(scaling, NtkScaling | DynamicNtkScaling):
            yield f"{at}.positions.scaling", "NTK scaling of a single pair"


def buckets(model: Model) -> Found:
    """An odd number of buckets where both directions share them."""
    for at, stack in _stacks(model):
        p = stack.positions
        if not isinstance(p, RelativeBuckets | Disentangled) or not p.buckets or p.buckets % 2 == 0:
            continue
        if isinstance(p, Disentangled) or stack.mask == "bidirectional":
            yield f"{at}.positions.buckets", f"{p.buckets} buckets for two directions"


def position_scores(model: Model) -> Found:
    """Grouped or latent keys under a scheme that scores positions head by head."""
    for at, _, layer in _layers(model):
        if isinstance(layer.positions, Disentangled | RecurrentRelative):
            kind = type(layer.positions).__name__
            if not isinstance(layer.attention, Attention):
                yield f"{at}.attention", f"{kind} positions on latent attention"
            elif layer.attention.kv_heads != layer.attention.heads:
                yield f"{at}.attention.kv_heads", f"{kind} positions on grouped keys"


def latent_positions(model: Model) -> Found:
    """Latent attention without rotation, or with a table of biases."""
    for at, _, layer in _layers(model):
        if isinstance(layer.attention, LatentAttention) and isinstance(layer.positions, RelativeBuckets | Alibi):
            yield f"{at}.positions", f"{type(layer.positions).__name__} on latent attention"


def convolutions(model: Model) -> Found:
    """Convolutions in a causal stack."""
    for at, stack in _stacks(model):
        if stack.inserts and stack.mask == "causal":
            yield f"{at}.inserts", "a convolution in a causal stack"


def convolution_shapes(model: Model) -> Found:
    """Convolutions that do not fit the width, the length or the depth."""
    width = model.architecture.width
    for at, stack in _stacks(model):
        for index, conv in stack.inserts.items():
            if width % max(conv.groups, 1):
                yield f"{at}.inserts.{index}.groups", f"{conv.groups} groups do not divide the width {width}"
            if conv.kernel % 2 == 0:
                yield f"{at}.inserts.{index}.kernel", f"an even kernel of {conv.kernel}"
            if index not in range(stack.depth):
                yield f"{at}.inserts.{index}", f"no layer {index} in a stack of {stack.depth}"


def experts(model: Model) -> Found:
    """More experts chosen than there are, or groups that do not divide them."""
    for at, _, layer in _layers(model):
        ff = layer.feedforward
        if not isinstance(ff, Experts):
            continue
        if ff.active > ff.count:
            yield f"{at}.feedforward.active", f"{ff.active} of {ff.count} experts"
        if isinstance(ff.router, SigmoidRouter):
            groups, chosen = max(ff.router.groups, 1), ff.router.active_groups
            if ff.count % groups or chosen > groups:
                yield f"{at}.feedforward.router", f"{chosen} of {groups} groups of {ff.count} experts"
            elif ff.active > chosen * (ff.count // groups):
                yield f"{at}.feedforward.active", f"{ff.active} experts from {chosen} groups of {ff.count // groups}"


def ties(model: Model) -> Found:
    """Ties to no table, or to one of another shape."""
    arch = model.architecture
    tables = {name: stack.tokens for name, stack in arch.stacks.items() if isinstance(stack.input, TokenInput)}
    tied = [(f"architecture.{name}.input", table.tie, (table.vocab, table.rank or arch.width))
            for name, table in tables.items()]  # fmt: skip
    for name, head in arch.heads.items():
        if isinstance(head, VocabularyHead) and arch.stacks:
            inner = (head.transform.width if head.transform else None) or arch.width
            tied.append((f"architecture.heads.{name}", head.tie, (arch.vocab, inner)))
    for at, target, shape in tied:
        if target is None:
            continue
        owner = tables.get(target.removesuffix(".input.table"))
        if owner is None or owner.tie is not None or not target.endswith(".input.table"):
            yield f"{at}.tie", f"{target} is no table of its own"
        elif (own := (owner.vocab, owner.rank or arch.width)) != shape:
            yield f"{at}.tie", f"{shape[0]:,} × {shape[1]} tied to {own[0]:,} × {own[1]}"


def sharing(model: Model) -> Found:
    """Shared layers whose tensors differ in shape, or groups that cannot be filled."""
    for at, stack in _stacks(model):
        if stack.sharing is None or stack.sharing.inner < 1:
            continue
        inner, groups = stack.sharing.inner, stack.sharing.groups
        if stack.depth % inner or not 1 <= groups <= stack.depth // inner:
            yield f"{at}.sharing", f"{groups} groups of {inner} in a stack of {stack.depth}"
            continue
        shapes = _shapes_by_layer(model, at.rpartition(".")[2])
        for index in range(stack.depth):
            for part in stack.sharing.parts:
                owner = stack.owner(index, part)
                if shapes[index, part] != shapes[owner, part]:
                    yield f"{at}.sharing", f"the {part} of layers {owner} and {index} differ in shape"


def _shapes_by_layer(model: Model, name: str) -> dict[tuple[int, str], dict[str, tuple[int, ...]]]:
    arch = model.architecture
    # The rest of the model may be broken in its own ways.
    stack = dataclasses.replace(arch.stacks[name], sharing=None, inserts={}, input=TokenInput(vocab=1))
    alone, depth = Architecture(width=arch.width, encoder=stack), stack.depth
    found: dict[tuple[int, str], dict[str, tuple[int, ...]]] = {
        (i, part): {} for i in range(depth) for part in ("attention", "feedforward")
    }
    for tensor, shape in tensors(alone).items():
        words = tensor.split(".")
        if words[:2] == ["encoder", "layers"]:
            part = words[3].removesuffix("_norms")
            found.setdefault((int(words[2]), part), {})[".".join(words[3:])] = shape
    return found


def memories(model: Model) -> Found:
    """Memory under positions that are not recurrent."""
    for at, stack in _stacks(model):
        if stack.memory and not isinstance(stack.positions, RecurrentRelative):
            kind = type(stack.positions).__name__ if stack.positions else "no relative"
            yield f"{at}.memory", f"memory with {kind} positions"


def decoders(model: Model) -> Found:
    """A decoder that is not causal."""
    decoder = model.architecture.decoder
    if decoder is not None and decoder.mask != "causal":
        yield "architecture.decoder.mask", f"a {decoder.mask} decoder"


def crossing(model: Model) -> Found:
    """Cross-attention without an encoder, or two stacks that nothing joins."""
    arch = model.architecture
    if arch.encoder is None and arch.decoder is None and arch.recurrent is None:
        yield "architecture", "no stack at all"
    if arch.encoder is not None and arch.encoder.block.cross is not None:
        yield "architecture.encoder.block.cross", "cross-attention in the encoder"
    if arch.decoder is not None and (arch.decoder.block.cross is None) != (arch.encoder is None):
        without = "an encoder" if arch.encoder is None else "cross-attention"
        yield "architecture.decoder.block.cross", f"a decoder without {without}"


def rows(model: Model) -> Found:
    """Position tables with no row for position 0."""
    for at, stack in _stacks(model):
        table = stack.input.positions
        if isinstance(table, Learned) and table.rows <= table.offset:
            yield f"{at}.input.positions.rows", f"{table.rows} rows with an offset of {table.offset}"


def inputs(model: Model) -> Found:
    """Inputs that a stack cannot read: a decoder of images, patches that do not tile, a table of another length."""
    arch = model.architecture
    if arch.decoder is not None and not isinstance(arch.decoder.input, TokenInput):
        yield "architecture.decoder.input", f"a decoder of {arch.decoder.input.reads}"
    for at, stack in _stacks(model):
        source = stack.input
        if isinstance(source, PatchInput):
            if source.image % source.patch:
                yield f"{at}.input.patch", f"patches of {source.patch} in an image of {source.image}"
            elif isinstance(source.positions, Learned) and source.positions.usable != source.length:
                yield f"{at}.input.positions.rows", f"{source.positions.usable} rows for {source.length} vectors"
        if not isinstance(source, TokenInput) and getattr(source.positions, "count", "mask") == "ids":
            yield f"{at}.input.positions.count", f"positions that count ids in {source.reads}"


def ids(model: Model) -> Found:
    """Special ids outside the vocabulary."""
    for at, stack in _stacks(model):
        for name in ("pad_id", "start_id"):
            value, vocab = getattr(stack.input, name, None), getattr(stack.input, "vocab", 0)
            if isinstance(value, int) and not 0 <= value < vocab:
                yield f"{at}.input.{name}", f"id {value} in a vocabulary of {vocab:,}"


def starts(model: Model) -> Found:
    """A decoder beside an encoder without a first token, or without one for gaps in its labels."""
    arch = model.architecture
    if arch.encoder is None or arch.decoder is None:
        return
    for name, what in (("start_id", "no start token"), ("pad_id", "no padding token")):
        if getattr(arch.decoder.input, name, None) is None:
            yield f"architecture.decoder.input.{name}", what


def patterns(model: Model) -> Found:
    """Layer rules that name no layer."""
    for at, stack in _stacks(model):
        for rule in stack.pattern:
            numbers = [] if ":" in rule.layers else [int(one) for one in rule.layers.split(",")]
            if any(number >= stack.depth for number in numbers):
                yield f"{at}.pattern", f"layers {rule.layers} in a stack of {stack.depth}"


def dropouts(model: Model) -> Found:
    """Dropout rates outside [0, 1)."""
    for path, value in _values(model):
        if path.endswith("dropout") and not (isinstance(value, int | float) and 0 <= value < 1):
            yield path, f"a dropout of {value}"


def writes(model: Model) -> Found:
    """Models that do not write left to right."""
    if model.architecture.decoder is None:
        yield "", f"{model.name} is an encoder"


def bidirectional(model: Model) -> Found:
    """Models whose states do not see both sides."""
    arch = model.architecture
    if arch.decoder is not None:
        kind = "an encoder-decoder" if arch.encoder is not None else "a decoder"
        yield "", f"{model.name} is {kind}, whose states see only what comes before"
    elif arch.encoder is not None and arch.encoder.mask != "bidirectional":
        yield "architecture.encoder.mask", f"{model.name} has a {arch.encoder.mask} encoder"


def causal_alone(model: Model) -> Found:
    """Models that are not a causal decoder alone."""
    if model.architecture.decoder is None or model.architecture.encoder is not None:
        kind = "an encoder-decoder" if model.architecture.decoder is not None else "an encoder"
        yield "", f"{model.name} is {kind}"


def encoder_decoder(model: Model) -> Found:
    """Models that lack one of the two stacks."""
    for name in ("encoder", "decoder"):
        if name not in model.architecture.stacks:
            yield "", f"{model.name} has no {name}"


def two_streams(model: Model) -> Found:
    """Models that cannot run XLNet's query stream."""
    encoder = model.architecture.encoder
    if encoder is None or model.architecture.decoder is not None:
        yield "", f"{model.name} is not an encoder"
    elif not isinstance(encoder.positions, RecurrentRelative):
        yield "architecture.encoder.positions", f"{model.name} has other positions"
    elif not getattr(encoder.input, "query_vector", False):
        yield "architecture.encoder.input.query_vector", f"{model.name} has no query vector"
