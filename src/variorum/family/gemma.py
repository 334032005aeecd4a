"""Gemma 1 to 3: LLaMA with wide heads, offset norms, then capped scores, then local layers."""

from __future__ import annotations

from variorum.family.gpt import LLAMA, STACK, TABLE, shape
from variorum.spec.architecture import At, sandwich
from variorum.spec.feedforward import GatedMLP
from variorum.spec.model import MECHANISM, TOKENIZER, Change, Size
from variorum.spec.norms import RMSNorm
from variorum.spec.recipe import Tokenizer

NORM = RMSNorm(eps=1e-6, unit_offset=True)


def _size(
    name: str, width: int, depth: int, heads: int, ff: int, published: float, *, kv_heads: int, head_dim: int = 256,
    vocab: int = 256_000, scale: float | None = None,
) -> Size:  # fmt: skip
    more: dict[str, object] = {"input__scale": width**0.5}
    if scale is not None:
        more["block__attention__scale"] = scale
    values = shape(width, depth, heads, ff, vocab=vocab, kv_heads=kv_heads, head_dim=head_dim, **more)
    return Size(values, f"google/{name}", published)


GEMMA = LLAMA.variant(
    "gemma",
    cite="Gemma Team 2024, arXiv:2403.08295",
    changes=[
        Change(f"{STACK}.block.layout.norm", NORM, axis=MECHANISM, why="weights stored around zero",
               also={f"{STACK}.final_norm": NORM}),
        Change(f"{STACK}.block.feedforward", GatedMLP(width=16_384, activation="gelu_tanh"), axis=MECHANISM,
               why="GeGLU"),
        Change(f"{STACK}.block.attention.head_dim", 256, axis=MECHANISM, why="wide heads",
               also={f"{STACK}.input.scale": 768**0.5}),
        Change("architecture.heads.causal_lm.tie", TABLE, axis=MECHANISM, why="a 256k table is worth sharing",
               relieves="parameter-bloat"),
        Change("tokenizer", Tokenizer(kind="bpe"), axis=TOKENIZER, why="256k pieces",
               also={f"{STACK}.input.vocab": 256_000, f"{STACK}.input.pad_id": 0}),
    ],
    sizes={
        "gemma-2b": _size("gemma-2b", 2048, 18, 8, 16_384, 2.5e9, kv_heads=1),
        "gemma-7b": _size("gemma-7b", 3072, 28, 16, 24_576, 8.5e9, kv_heads=16),
    },
)  # fmt: skip

GEMMA2 = GEMMA.variant(
    "gemma-2",
    cite="Gemma Team 2024, arXiv:2408.00118",
    changes=[
        Change(f"{STACK}.block.layout", sandwich(NORM), axis=MECHANISM, why="norms before and after each sublayer",
               relieves="training-stability"),
        Change(f"{STACK}.block.attention.window", 4096, axis=MECHANISM, why="every second layer is local",
               relieves="kv-memory",
               also={f"{STACK}.pattern": (At(layers="1::2", set={"attention.window": None}),)}),
        Change(f"{STACK}.block.attention.softcap", 50.0, axis=MECHANISM, why="bounded scores",
               relieves="training-stability", also={"architecture.heads.causal_lm.softcap": 30.0}),
    ],
    sizes={
        "gemma-2-2b": _size("gemma-2-2b", 2304, 26, 8, 9216, 2.6e9, kv_heads=4),
        "gemma-2-9b": _size("gemma-2-9b", 3584, 42, 16, 14_336, 9.2e9, kv_heads=8),
        "gemma-2-27b": _size("gemma-2-27b", 4608, 46, 32, 36_864, 27.2e9, kv_heads=16, head_dim=128, scale=144**-0.5),
    },
)  # fmt: skip

GEMMA3 = GEMMA2.variant(
    "gemma-3",
    cite="Gemma Team 2025, arXiv:2503.19786",
    changes=[
        Change(f"{STACK}.block.attention.qk_norm", NORM, axis=MECHANISM, why="instead of capping scores",
               relieves="training-stability",
               also={f"{STACK}.block.attention.softcap": None, "architecture.heads.causal_lm.softcap": None}),
        Change(f"{STACK}.block.attention.window", 512, axis=MECHANISM, why="five local layers for one global",
               relieves="kv-memory",
               also={f"{STACK}.pattern":
                     (At(layers="5::6", set={"attention.window": None, "positions.theta": 1e6}),)}),
        Change(f"{STACK}.input.vocab", 262_144, axis=TOKENIZER, why="more languages"),
    ],
    sizes={
        "gemma-3-270m": _size("gemma-3-270m", 640, 18, 4, 2048, 270e6, kv_heads=1, vocab=262_144),
        "gemma-3-1b": _size("gemma-3-1b-pt", 1152, 26, 4, 6912, 1e9, kv_heads=1, vocab=262_144),
    },
)  # fmt: skip
MODELS = (GEMMA, GEMMA2, GEMMA3)
