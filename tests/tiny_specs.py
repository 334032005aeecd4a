"""Tiny models whose mechanisms all show on a dozen tokens, in float64, with every parameter away from 0 and 1.

A fresh model has zero biases and unit norms, so a forgotten bias or norm would not show; here nothing is at rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tests.spec.shrunk import TEXT
from variorum.builder import build
from variorum.checks.subjects import shaken
from variorum.model import Model, Output
from variorum.spec.architecture import At
from variorum.spec.feedforward import GatedMLP
from variorum.spec.model import Model as Spec
from variorum.spec.positions import Disentangled, Learned, RelativeBuckets

NAMES = tuple(TEXT)
DECODERS = tuple(name for name, spec in TEXT.items() if spec.architecture.encoder is None)
#: Those that keep keys and values; the others remember hidden states.
CACHED = tuple(name for name in DECODERS if not TEXT[name].architecture.decoder.memory)  # type: ignore[union-attr]
ENCODERS = tuple(name for name, spec in TEXT.items() if spec.architecture.decoder is None)
SEQ2SEQ = tuple(name for name in NAMES if name not in DECODERS + ENCODERS)
#: Their scores are capped, which the fused backend cannot do and refuses.
CAPPED = ("gemma-2",)
WINDOW, VOCAB, WIDTH = 6, 50, 32


def tiny(name: str, values: dict[str, object] | None = None) -> Spec:
    """The model called ``name``, small, with windows, buckets and spans that twelve tokens overrun."""
    spec = TEXT[name]
    if name == "deepseek-v3":  # its first layers are dense, and 18,432 wide
        dense = At(layers=":3", set={"feedforward": GatedMLP(width=24, activation="silu")})
        spec = spec.set({"architecture.decoder.pattern": (dense,)})
    for stack, parts in spec.architecture.stacks.items():
        root, positions = f"architecture.{stack}", parts.positions
        if parts.block.attention.window:
            spec = spec.set({f"{root}.block.attention.window": WINDOW})
        if isinstance(positions, RelativeBuckets):
            spec = spec.set({f"{root}.positions": RelativeBuckets(buckets=8, max_distance=10)})
        if isinstance(positions, Disentangled):
            spec = spec.set({f"{root}.positions.span": 5})
            if positions.buckets is not None:
                buckets = {"span": 6, "buckets": 6, "max_distance": 10}
                spec = spec.set({f"{root}.positions.{name}": value for name, value in buckets.items()})
        if isinstance(parts.input.positions, Learned):
            spec = spec.set({f"{root}.input.positions.rows": 80})
        if parts.tokens.start_id == "last":  # who writes has been told the language
            spec = spec.set({f"{root}.input.start_id": 3})
    return spec.set(values or {})


def made(spec: str | Spec, head: str | Sequence[str] | None = None, seed: int = 0) -> Model:
    """A shaken tiny model."""
    return shaken(build(tiny(spec) if isinstance(spec, str) else spec, head=head, seed=seed), seed)


def lm_head(name: str) -> str:
    """The head that scores words."""
    heads = TEXT[name].architecture.heads
    return next(head for head in heads if head.endswith("_lm"))


def words(batch: int, length: int, seed: int = 0) -> Tensor:
    """Ids that are no model's padding, [batch, length]."""
    return torch.randint(6, VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))


def run(model: Model, ids: Tensor, mask: Tensor | None = None, **given: object) -> Output:
    """A forward; an encoder-decoder reads ``ids`` and writes the first five of them."""
    if model.is_decoder and model.spec.architecture.encoder is not None:
        given.setdefault("decoder_input_ids", ids[:, -5:])
    return model(ids, attention_mask=mask, **given)  # type: ignore[no-any-return]


def gap(a: Tensor, b: Tensor) -> float:
    """The largest difference."""
    assert a.shape == b.shape, (a.shape, b.shape)
    return float((a - b).detach().abs().max())
