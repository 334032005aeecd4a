"""Falcon: GPT-NeoX with one norm and one key head; then more key heads; and the linear biases it was measured against.

The fused query-key-value matrix of all three is one layout, for each key head its queries, its key, its value.
"""

from __future__ import annotations

from variorum.family.gpt import NORM, STACK, TABLE, shape
from variorum.family.neox import NEOX
from variorum.spec.architecture import parallel, pre
from variorum.spec.attention import ALL_PROJECTIONS
from variorum.spec.model import MECHANISM, POSITIONS, TOKENIZER, TRAINING, Change, Size
from variorum.spec.positions import Alibi, Rotary
from variorum.spec.recipe import Recipe


def _size(
    name: str, width: int, depth: int, heads: int, published: float, *, kv_heads: int, vocab: int = 65_024
) -> Size:  # fmt: skip
    return Size(shape(width, depth, heads, 4 * width, vocab=vocab, kv_heads=kv_heads), f"tiiuae/{name}", published)


FALCON = NEOX.variant(
    "falcon",
    cite="Almazrouei et al. 2023, arXiv:2311.16867",
    changes=[
        Change(f"{STACK}.block.attention.kv_heads", 1, MECHANISM, "all query heads share one key and one value",
               relieves="kv-memory"),
        Change(f"{STACK}.block.layout", parallel(NORM, shared=True), MECHANISM, "both sublayers read one norm",
               relieves="latency"),
        Change(f"{STACK}.block.attention.bias", (), MECHANISM, "biases buy nothing at scale",
               also={f"{STACK}.block.feedforward.bias": False}),
        Change(f"{STACK}.block.feedforward.activation", "gelu", MECHANISM, "the exact GELU"),
        Change(f"{STACK}.positions", Rotary(), POSITIONS, "all channels are rotated"),
        Change("architecture.heads.causal_lm.tie", TABLE, MECHANISM, "one table in and out",
               relieves="parameter-bloat"),
        Change(f"{STACK}.input.vocab", 65_024, TOKENIZER, "BPE trained on RefinedWeb"),
        Change("recipe", Recipe(batch=2304, length=2048, learning_rate=6e-4, weight_decay=0.1, schedule="cosine",
                                tokens=1.5e12), TRAINING, "filtered web text alone is enough, and there is more of it",
               relieves="under-training"),
    ],
    weaknesses=("quadratic-attention",),
    sizes={"falcon-7b": _size("falcon-7b", 4544, 32, 71, 7e9, kv_heads=1)},
)  # fmt: skip

FALCON_GROUPED = FALCON.variant(
    "falcon-grouped",
    cite="Almazrouei et al. 2023, arXiv:2311.16867",
    changes=[
        Change(f"{STACK}.block.attention.kv_heads", 4, MECHANISM, "a key head for each device that shares a layer",
               relieves="latency"),
        Change(f"{STACK}.block.layout", parallel(NORM), MECHANISM, "a norm for each sublayer again",
               relieves="training-stability"),
    ],
    weaknesses=("quadratic-attention",),
    sizes={
        "falcon-40b": _size("falcon-40b", 8192, 60, 128, 40e9, kv_heads=8),
        "falcon-180b": _size("falcon-180b", 14_848, 80, 232, 180e9, kv_heads=8),
    },
)  # fmt: skip

FALCON_RW = FALCON.variant(
    "falcon-rw",
    cite="Penedo et al. 2023, arXiv:2306.01116",
    changes=[
        Change(f"{STACK}.positions", Alibi(scaled=True), POSITIONS, "linear biases, which the scale shrinks too",
               relieves="length-extrapolation"),
        Change(f"{STACK}.block.layout", pre(NORM), MECHANISM, "one sublayer after the other, as in GPT-2"),
        Change(f"{STACK}.block.attention.kv_heads", 12, MECHANISM, "a key head for each query head"),
        Change(f"{STACK}.block.attention.bias", ALL_PROJECTIONS, MECHANISM, "biases, as in GPT-2",
               also={f"{STACK}.block.feedforward.bias": True}),
        Change(f"{STACK}.input.vocab", 50_304, TOKENIZER, "GPT-2's BPE"),
        Change("recipe", Recipe(batch=256, length=2048, learning_rate=2e-4, weight_decay=0.1,
                                schedule="cosine", tokens=350e9), TRAINING, "to compare data sets, not to lead"),
    ],
    weaknesses=("kv-memory", "quadratic-attention"),
    sizes={
        "falcon-rw-1b": _size("falcon-rw-1b", 2048, 24, 32, 1.3e9, kv_heads=32, vocab=50_304),
        "falcon-rw-7b": _size("falcon-rw-7b", 4096, 36, 64, 7.5e9, kv_heads=64, vocab=65_024),
    },
)  # fmt: skip
MODELS = (FALCON, FALCON_GROUPED, FALCON_RW)
