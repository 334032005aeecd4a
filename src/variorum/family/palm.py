"""PaLM: GPT-2 with every later economy at once. No weights were published; the shapes are those of its Table 1."""

from __future__ import annotations

from variorum.family.gpt import GPT2, STACK, shape
from variorum.spec.architecture import Init, parallel
from variorum.spec.feedforward import GatedMLP
from variorum.spec.model import MECHANISM, POSITIONS, TOKENIZER, TRAINING, Change, Size
from variorum.spec.norms import LayerNorm
from variorum.spec.positions import Rotary
from variorum.spec.recipe import Recipe, Tokenizer

NORM = LayerNorm(eps=1e-6, bias=False)
SCALE = "architecture.heads.causal_lm.scale"


def _size(width: int, depth: int, heads: int, published: float) -> Size:
    values = shape(width, depth, heads, 4 * width, vocab=256_000, kv_heads=1, head_dim=256)
    return Size({**values, SCALE: width**-0.5}, None, published, note="no weights were published")


PALM = GPT2.variant(
    "palm",
    cite="Chowdhery et al. 2022, arXiv:2204.02311",
    changes=[
        Change(f"{STACK}.positions", Rotary(), POSITIONS, "better on long sequences than absolute or relative vectors",
               relieves="length-extrapolation", also={f"{STACK}.input.positions": None}),
        Change(f"{STACK}.block.layout", parallel(NORM, shared=True), MECHANISM, "15 % faster training at scale",
               relieves="latency", also={f"{STACK}.final_norm": NORM}),
        Change(f"{STACK}.block.attention.kv_heads", 1, MECHANISM, "one key and one value head: cheaper decoding",
               relieves="kv-memory", also={f"{STACK}.block.attention.head_dim": 256}),
        Change(f"{STACK}.block.feedforward", GatedMLP(width=3072, activation="silu"), MECHANISM,
               "SwiGLU learns more per parameter", relieves="data-efficiency"),
        Change(f"{STACK}.block.attention.bias", (), MECHANISM, "no biases anywhere: stabler large models",
               relieves="training-stability"),
        Change(SCALE, 768**-0.5, MECHANISM, "the shared table is large, so its logits are divided by √D",
               also={"architecture.init": Init(std=None, table=1.0)}),
        Change(f"{STACK}.block.dropout", 0.0, TRAINING, "each text is seen once",
               also={f"{STACK}.input.dropout": 0.0, f"{STACK}.block.attention.dropout": 0.0}),
        Change("tokenizer", Tokenizer(kind="unigram"), TOKENIZER, "SentencePiece for many languages; digits apart",
               also={f"{STACK}.input.vocab": 256_000}),
        Change("recipe", Recipe(batch=2048, length=2048, learning_rate=1e-2, warmup=10_000, schedule="inverse_sqrt",
                                tokens=780e9), TRAINING, "Adafactor, the rate falling with the root of the step"),
    ],
    uncertain={
        f"{STACK}.block.layout.norm.eps": "the paper gives no epsilon; this is its library's default",
        f"{STACK}.positions.theta": "the paper gives no base; this is that of the rotation it cites",
    },
    weaknesses=("quadratic-attention", "under-training"),
    sizes={
        "palm-8b": _size(4096, 32, 16, 8.63e9),
        "palm-62b": _size(8192, 64, 32, 62.5e9),
        "palm-540b": _size(18_432, 118, 48, 540.35e9),
    },
)  # fmt: skip
MODELS = (PALM,)
