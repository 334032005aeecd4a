"""What a model costs, term by term: parameters, FLOPs, cache and activations, exact and with their formulas.

It is arithmetic on the spec. Parameters are the sum of the inventory, so they equal the built model's; FLOPs are the
sum of the named tensors of a forward pass, two a multiply-add, so they equal what a counter sees (softmax, norms and
activations are not counted, as nobody counts them).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from typing import Literal

from variorum.errors import NotFound, UsageError, nearest
from variorum.spec.architecture import Architecture, Stack
from variorum.spec.cache import PLAN, CachePlan
from variorum.spec.feedforward import Experts
from variorum.spec.inventory import tensors
from variorum.spec.model import Model
from variorum.spec.positions import Learned
from variorum.spec.recipe import Objective
from variorum.spec.shapes import Named, forward
from variorum.spec.state import Held, bytes_each, cache

Of = Literal["parameters", "flops", "cache", "activations"]
PUBLISHED = "published"
PART = {
    "input.table": "token table", "input.positions": "positions", "input.segments": "segments",
    "input.project": "input projection", "input.query_vector": "query vector", "input.norm": "norms",
    "input.first": "first vector", "input.patches": "patches",
    "input.conv1": "convolution", "input.conv2": "convolution",
    "final_norm": "norms", "positions": "positions", "attention.positions": "positions", "attention": "attention",
    "attention_norms": "norms", "cross": "cross-attention", "cross_norms": "norms", "feedforward_norms": "norms",
    "feedforward.experts": "experts", "feedforward.router": "router", "feedforward": "feed-forward",
    "inserts": "convolution", "from_left": "recurrence", "from_right": "recurrence", "mix": "mix",
}  # fmt: skip
LENGTH_WITHOUT_RECIPE = 512


@dataclasses.dataclass(frozen=True, kw_only=True)
class Term:
    """One summand: of what, for which part, in how many layers, its value and the formula of the whole.

    FLOPs are per token (``per`` says so) but for what is made once per sequence or per pass.
    """

    of: Of
    part: str
    name: str
    layers: int
    value: int
    formula: str
    per: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerSize:
    """One layer's share. Parameters that it borrows from another layer count there, FLOPs count here."""

    stack: str
    index: int
    parameters: int
    flops: int
    cache: int
    activations: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """What a model costs with ``heads``, at ``context`` tokens in each of ``batch`` sequences, in ``dtype``.

    Attributes:
        parameters: every trained number once.
        active: those that one token uses: less than all where experts are routed.
        embedding: those of the input token tables.
        parts: parameters by part, largest first; they sum to ``parameters``.
        weight_bytes: ``parameters`` in ``dtype``.
        flops: forward FLOPs of the token that sees ``context`` keys (in an encoder-decoder: of one source and one
            target token).
        forward_flops: of one whole pass over ``batch`` × ``context`` tokens.
        cache_per_token: bytes that decoding keeps of one more token while no window is full.
        cross_per_token: bytes that cross-attention keeps of one source token.
        cache: bytes that it keeps at ``context`` and ``batch``.
        activations: bytes of all that one whole pass writes, attention maps left out.
        attention_maps: bytes of those, which only the eager backend writes.
        reach: tokens that the last state can be about through all windowed layers (both sides and itself, where a stack
            is bidirectional), ``None`` where some layer sees all.
        longest: tokens that a position table has rows for, ``None`` without one.
        trained_length: tokens that the published recipe trained on.
    """

    name: str
    heads: tuple[str, ...]
    context: int
    batch: int
    dtype: str
    parameters: int
    active: int
    embedding: int
    parts: dict[str, int]
    weight_bytes: int
    flops: int
    forward_flops: int
    cache_per_token: int
    cross_per_token: int
    cache: int
    activations: int
    attention_maps: int
    reach: int | None
    longest: int | None
    trained_length: int | None
    layers: tuple[LayerSize, ...]
    terms: tuple[Term, ...]

    @property
    def embedding_share(self) -> float:
        """The input tables' part of all parameters."""
        return self.embedding / self.parameters


def size(
    model: Model, *, head: str | Sequence[str] | None = PUBLISHED, context: int | None = None, batch: int = 1,
    dtype: str = "float16", plan: CachePlan = PLAN,
) -> Size:  # fmt: skip
    """What ``model`` costs.

    Args:
        model: the spec.
        head: a head, several, or ``None`` for the bare model. The published count is the default: with the language
            model head of a decoder, without a head for an encoder.
        context: tokens of each sequence; those it was trained on, if absent.
        batch: sequences.
        dtype: of weights, cache and activations.
        plan: what decoding keeps of the tokens it has read.

    Raises:
        NotFound: the spec has no such head.
        UsageError: fewer than one token or sequence, more tokens than the position table has rows, an unknown dtype, or
            a plan that the model cannot keep.
    """
    arch, heads = model.architecture, chosen_heads(model, head)
    context = checked_context(model, context)
    if batch < 1:
        raise UsageError(f"a batch holds at least one sequence, not {batch}", where="batch")
    item = bytes_each(dtype)
    names = tensors(arch, heads)
    token = forward(arch, heads=heads, length=1, context=context)
    rows = forward(arch, heads=heads, batch=batch, length=context)
    held = cache(arch, batch=batch, context=context, dtype=dtype, plan=plan, name=model.name)
    one = cache(arch, batch=1, context=1, dtype=dtype, plan=dataclasses.replace(plan, page=1), name=model.name)
    parameters = sum(math.prod(shape) for shape in names.values())
    parts: dict[str, int] = {}
    for name, shape in names.items():
        parts[part_of(name)] = parts.get(part_of(name), 0) + math.prod(shape)
    return Size(
        name=model.name,
        heads=heads,
        context=context,
        batch=batch,
        dtype=dtype,
        parameters=parameters,
        active=parameters - idle_parameters(arch),
        embedding=parts.get("token table", 0),
        parts=dict(sorted(parts.items(), key=lambda item: -item[1])),
        weight_bytes=parameters * item,
        flops=sum(row.flops for row in token if row.per == "token"),
        forward_flops=sum(row.flops for row in rows),
        cache_per_token=sum(h.bytes for h in one if ".cross." not in h.name),
        cross_per_token=sum(h.bytes for h in one if ".cross." in h.name),
        cache=sum(h.bytes for h in held),
        activations=sum(row.elements for row in rows if row.written) * item,
        attention_maps=sum(row.elements for row in rows if row.name.endswith(".maps")) * item,
        reach=reach(arch.main),
        longest=longest(model),
        trained_length=model.recipe.length,
        layers=tuple(_layers(arch, names, token, held, rows, item)),
        terms=(
            *_parameter_terms(names), *_flop_terms(token), *_cache_terms(held),
            *_activation_terms([row for row in rows if row.written], item),
        ),
    )  # fmt: skip


def chosen_heads(model: Model, head: str | Sequence[str] | None = PUBLISHED) -> tuple[str, ...]:
    """The names of the heads meant: given ones, none, or those that published counts include.

    Raises:
        NotFound: the spec has no such head.
    """
    known = model.architecture.heads
    if head == PUBLISHED:
        return tuple(name for name in ("causal_lm", "seq2seq_lm") if name in known and model.architecture.decoder)[:1]
    heads = () if head is None else (head,) if isinstance(head, str) else tuple(head)
    for name in heads:
        if name not in known:
            remedy = nearest(name, known) or f"it has {', '.join(known) or 'none'}"
            raise NotFound(f"{model.name} has no head {name!r}", remedy=remedy)
    return heads


def longest(model: Model) -> int | None:
    """The tokens that its position table has rows for; ``None`` where positions are computed."""
    tables = [s.input.positions for s in model.architecture.stacks.values() if isinstance(s.input.positions, Learned)]
    return min((table.rows - table.offset for table in tables), default=None)


def reach(stack: Stack | None) -> int | None:
    """How many tokens the last layer's state can be about: Σ(W - 1) + 1 over causal windows.

    A bidirectional window carries W/2 to each side. ``None`` where some layer has no window. It is an upper bound on
    use, and exact for what a gradient reaches. Without a stack, nothing that recurs forgets.
    """
    if stack is None:
        return None
    causal, windows = stack.mask == "causal", [stack.layer(index).attention.window for index in range(stack.depth)]
    steps = [window - 1 if causal else 2 * (window // 2) for window in windows if window]
    return None if len(steps) < len(windows) else sum(steps) + 1


def supervised_share(objective: Objective) -> float | None:
    """The share of a text's tokens that give a loss; ``None`` where the spec does not say.

    A distilled student imitates its teacher at every token.
    """
    if objective.kind in ("causal_lm", "replaced_token", "distillation", "infilling"):
        return 1.0
    hides = ("masked_lm", "translation_lm", "permutation_lm", "span_corruption", "gap_sentences")
    if objective.kind in hides and objective.masking is not None:
        return objective.masking.rate
    return None


def checked_context(model: Model, context: int | None) -> int:
    """``context``, or the published training length, within what the position table allows.

    Raises:
        UsageError: fewer than one token, or more than there are positions for.
    """
    limit = longest(model)
    if context is None:
        trained = model.recipe.length or limit or LENGTH_WITHOUT_RECIPE
        return min(trained, limit or trained)
    if context < 1:
        raise UsageError(f"a sequence holds at least one token, not {context}", where="context")
    if limit is not None and context > limit:
        raise UsageError(f"{context:,} tokens are more than the {limit:,} that {model.name} takes", where="context")
    return context


def idle_parameters(arch: Architecture) -> int:
    """The parameters of all experts that one token does not visit."""
    total = 0
    for stack in arch.stacks.values():
        for index in range(stack.depth):
            ff = stack.layer(index).feedforward
            if isinstance(ff, Experts) and stack.owner(index, "feedforward") == index:
                total += (ff.count - ff.active) * 3 * ff.width * arch.width
    return total


def part_of(name: str) -> str:
    """The part that a tensor belongs to, in words."""
    first, _, rest = name.partition(".")
    if first in ("pooler", "heads"):
        return {"pooler": "pooler", "heads": "head"}[first]
    rest = re.sub(r"^layers\.\d+\.", "", rest)
    return next((part for key, part in PART.items() if rest == key or rest.startswith(f"{key}.")), "residual stream")


def _layers(
    arch: Architecture, names: dict[str, tuple[int, ...]], token: list[Named], held: list[Held], rows: list[Named],
    item: int,
) -> Iterable[LayerSize]:  # fmt: skip
    sums: dict[str, list[int]] = {}

    def add(name: str, which: int, value: int) -> None:
        found = re.match(r"\w+\.layers\.\d+", name)
        if found:
            sums.setdefault(found[0], [0, 0, 0, 0])[which] += value

    for name, shape in names.items():
        add(name, 0, math.prod(shape))
    for row in token:
        add(row.name, 1, row.flops if row.per == "token" else 0)
    for tensor in held:
        add(tensor.name, 2, tensor.bytes)
    for row in rows:
        add(row.name, 3, row.elements * item if row.written else 0)
    depths = {name: stack.depth for name, stack in arch.stacks.items()}
    for stack, depth in {**depths, **({"recurrent": arch.recurrent.depth} if arch.recurrent else {})}.items():
        for index in range(depth):
            parameters, flops, kept, written = sums[f"{stack}.layers.{index}"]
            yield LayerSize(
                stack=stack, index=index, parameters=parameters, flops=flops, cache=kept, activations=written
            )


def starred(name: str) -> str:
    """``name`` with its layer's number left open."""
    return re.sub(r"\.layers\.\d+", ".layers.*", name)


def _grouped(of: Of, items: Iterable[tuple[str, str, str, int]]) -> Iterable[Term]:
    """Terms of (name, per, formula, value), the layers that agree in name and formula put together."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for name, per, formula, value in items:
        groups.setdefault((starred(name), per, formula), []).append(value)
    for (name, per, formula), values in groups.items():
        times = f"{len(values)} × " if len(values) > 1 else ""
        part = part_of(name.replace(".layers.*", ".layers.0"))
        yield Term(of=of, part=part, name=name, layers=len(values), value=sum(values), formula=times + formula, per=per)


def _parameter_terms(names: dict[str, tuple[int, ...]]) -> Iterable[Term]:
    shapes = ((name, "", " × ".join(f"{n:,}" for n in shape), math.prod(shape)) for name, shape in names.items())
    return _grouped("parameters", shapes)


def _flop_terms(token: list[Named]) -> Iterable[Term]:
    return _grouped("flops", ((row.name, row.per, row.formula, row.flops) for row in token if row.flops))


def _cache_terms(held: list[Held]) -> Iterable[Term]:
    return _grouped("cache", ((h.name, "", h.formula, h.bytes) for h in held))


def _activation_terms(rows: list[Named], item: int) -> Iterable[Term]:
    return _grouped(
        "activations", ((row.name, "", f"{row.letters.replace(' ', '·')}·{item}", row.elements * item) for row in rows)
    )
