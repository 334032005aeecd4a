"""What is alive during a run: the cache that decoding keeps, and the tensors that one pass needs, as shapes and bytes.

Arithmetic on the spec alone. Weights are not here; :mod:`variorum.spec.inventory` lists them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from variorum.errors import UsageError, nearest
from variorum.spec.architecture import Architecture, Stack
from variorum.spec.attention import LatentAttention
from variorum.spec.cache import PLAN, CachePlan, arrangement, require
from variorum.spec.heads import EmbeddingHead, SpanHead, TwoWayHead
from variorum.spec.shapes import Axis

DTYPES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
INDEX = 8  # ids and positions are int64


class Held(NamedTuple):
    """One run-time tensor. ``kept`` says for how long: one ``pass``, or from ``step`` to step of decoding."""

    name: str
    axes: tuple[Axis, ...]
    item: int
    kept: Literal["pass", "step"]
    note: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def bytes(self) -> int:
        """What it takes."""
        return math.prod(self.shape) * self.item

    @property
    def formula(self) -> str:
        """The bytes in letters."""
        return "·".join([*(axis.letters for axis in self.axes), str(self.item)])


def bytes_each(dtype: str) -> int:
    """Bytes of one number of ``dtype``.

    Raises:
        UsageError: an unknown type.
    """
    if dtype not in DTYPES:
        raise UsageError(f"unknown dtype {dtype!r}", remedy=nearest(dtype, DTYPES) or f"one of {', '.join(DTYPES)}")
    return DTYPES[dtype]


def cache(
    arch: Architecture, *, batch: int, context: int, dtype: str, plan: CachePlan = PLAN, name: str = "this model"
) -> list[Held]:  # fmt: skip
    """What decoding keeps for ``context`` tokens of each of ``batch`` sequences; nothing for an encoder alone.

    A stack with a memory keeps states instead of keys and values. A windowed layer holds min(W, n) tokens (a ring)
    unless ``plan`` says otherwise, latent attention its latent and one rotated key, cross-attention the keys and values
    of every source token, of which there are ``context`` too.

    Raises:
        UsageError: see :func:`~variorum.spec.cache.require`.
    """
    item, held = bytes_each(dtype), []
    for name, stack in arch.stacks.items():
        if stack.memory:
            kept = Axis(f"min(T, {stack.memory})", min(context, stack.memory))
            axes = (Axis("B", batch), kept, Axis("D", arch.width))
            held += [Held(f"{name}.layers.{i}.memory", axes, item, "step") for i in range(stack.depth)]
    if arch.decoder is not None and not arch.decoder.memory:
        source = context if arch.encoder is not None else 0
        require(arch.decoder, plan, name)
        held += _slots(arch.decoder, Axis("B", batch), context, source, item, Axis("D", arch.width), plan)
    return held


def _slots(
    stack: Stack, batch: Axis, context: int, source: int, item: int, width: Axis, plan: CachePlan
) -> Iterator[Held]:
    if stack.settled is not None:
        rank = getattr(stack.input, "rank", None)
        vectors = (batch, Axis("T", context), Axis("R", rank) if rank else width)
        yield Held("decoder.input.vectors", vectors, item, "step", note="to start over from: rotation follows length")
    for index in range(stack.depth):
        layer, at = stack.layer(index), f"decoder.layers.{index}"
        a, lies = layer.attention, arrangement(stack, index, plan)
        tokens = Axis(lies.letters, lies.slots(context))
        if isinstance(a, LatentAttention):
            latent = Axis("(r + rope)", a.kv_rank + a.rope_dim)
            yield from _numbers(f"{at}.attention.latent", (batch, tokens, latent), item, plan, "with the rotated key")
        else:
            axes = (batch, Axis("K", a.kv_heads), tokens, Axis("d", a.head_dim))
            for kind in ("keys", "values"):
                yield from _numbers(f"{at}.attention.{kind}", axes, item, plan)
        if layer.cross is not None:
            axes = (batch, Axis("K", layer.cross.kv_heads), Axis("S", source), Axis("d", layer.cross.head_dim))
            for kind in ("keys", "values"):
                yield from _numbers(f"{at}.cross.{kind}", axes, item, plan, "made once from the source")


def _numbers(name: str, axes: tuple[Axis, ...], item: int, plan: CachePlan, note: str = "") -> Iterator[Held]:
    """Entries as the plan keeps them: themselves, or whole numbers and a scale for each token and head."""
    if plan.numbers == "model":
        yield Held(name, axes, item, "step", note=note)
        return
    yield Held(name, axes, DTYPES["int8"], "step", note=note)
    yield Held(f"{name}_scale", axes[:-1], DTYPES["float32"], "step", note=note)


def alive(
    arch: Architecture, *, heads: Sequence[str] = (), batch: int, context: int, dtype: str
) -> list[Held]:  # fmt: skip
    """Every kind of run-time tensor: what goes in, what flows through, what comes out, and the cache."""
    item, b = bytes_each(dtype), Axis("B", batch)
    width, found = Axis("D", arch.width), []
    for name, stack in arch.stacks.items():
        tokens = Axis("S" if name == "encoder" and arch.decoder is not None else "T", context)
        for ids in ("ids", "attention_mask", "positions"):
            found.append(Held(f"{name}.{ids}", (b, tokens), INDEX, "pass"))
        found.append(Held(f"{name}.hidden_states", (b, tokens, width), item, "pass", note="one at a time"))
        maps = (b, Axis("H", stack.block.attention.heads), tokens, tokens)
        found.append(
            Held(f"{name}.attention_maps", maps, item, "pass", note="a layer's; never written by fused kernels")
        )
    if arch.recurrent is not None:
        for ids in ("ids", "attention_mask"):
            found.append(Held(f"recurrent.{ids}", (b, Axis("T", context)), INDEX, "pass"))
        states = (Axis("L+1", arch.recurrent.depth + 1), b, Axis("T", context), width)
        found.append(Held("recurrent.hidden_states", states, item, "pass", note="all are mixed"))
    for name in heads:
        head = arch.heads[name]
        labels = getattr(head, "labels", None)
        scores = Axis("V", arch.vocab) if labels is None else Axis("labels", labels)
        if isinstance(head, EmbeddingHead):
            scores = width
        if isinstance(head, SpanHead):
            scores = Axis("1", 1)
        lead = (b,) if hasattr(head, "take") else (b, Axis("T", context))
        lead = (*lead, Axis("2", 2)) if isinstance(head, TwoWayHead) else lead
        found.append(Held(f"heads.{name}.logits", (*lead, scores), item, "pass"))
    if arch.encoder is not None and arch.decoder is not None:
        found.append(Held("encoded", (b, Axis("S", context), width), item, "step", note="the encoder's output"))
    return found + cache(arch, batch=batch, context=context, dtype=dtype)
