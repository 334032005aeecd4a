"""Qwen 2 to 3: LLaMA with biased, then normed queries and keys, and the same with many small experts."""

from __future__ import annotations

from variorum.family.gpt import HEADS, LLAMA, RMS, STACK, TABLE, shape
from variorum.spec.feedforward import Experts, SoftmaxRouter
from variorum.spec.model import MECHANISM, POSITIONS, TOKENIZER, TRAINING, Change, Size
from variorum.spec.recipe import Tokenizer

TIED = {f"{HEADS}.causal_lm.tie": TABLE}

QWEN2 = LLAMA.variant(
    "qwen2",
    cite="Yang et al. 2024, arXiv:2407.10671",
    changes=[
        Change(f"{STACK}.block.attention.bias", ("query", "key", "value"), MECHANISM,
               "biased queries and keys hold up beyond the trained length", relieves="length-extrapolation"),
        Change(f"{STACK}.block.attention.kv_heads", 4, MECHANISM, "query heads share keys and values",
               relieves="kv-memory"),
        Change(f"{STACK}.positions.theta", 1e6, POSITIONS, "slower rotation for 32k tokens",
               relieves="length-extrapolation", also={"recipe.length": 32_768}),
        Change("tokenizer", Tokenizer(kind="byte-bpe"), TOKENIZER, "152k tokens of many languages",
               also={f"{STACK}.input.vocab": 151_936}),
        Change("recipe.tokens", 7e12, TRAINING, "seven trillion tokens"),
    ],
    weaknesses=("quadratic-attention",),
    sizes={"qwen2-7b": Size(shape(3584, 28, 28, 18_944, vocab=152_064, kv_heads=4), "Qwen/Qwen2-7B", 7.62e9)},
)  # fmt: skip

QWEN25 = QWEN2.variant(
    "qwen2.5",
    cite="Qwen Team 2024, arXiv:2412.15115",
    changes=[Change("recipe.tokens", 18e12, TRAINING, "better data, and more than twice as much",
                    relieves="under-training")],
    weaknesses=("quadratic-attention",),
    sizes={
        "qwen2.5-0.5b": Size(shape(896, 24, 14, 4864, vocab=151_936, kv_heads=2) | TIED, "Qwen/Qwen2.5-0.5B", 0.49e9),
        "qwen2.5-7b": Size(shape(3584, 28, 28, 18_944, vocab=152_064, kv_heads=4), "Qwen/Qwen2.5-7B", 7.61e9),
    },
)  # fmt: skip

QWEN3 = QWEN25.variant(
    "qwen3",
    cite="Qwen Team 2025, arXiv:2505.09388",
    changes=[
        Change(f"{STACK}.block.attention.qk_norm", RMS, MECHANISM, "normed queries and keys need no biases",
               relieves="training-stability", also={f"{STACK}.block.attention.bias": ()}),
        Change(f"{STACK}.block.attention.head_dim", 128, MECHANISM, "heads as wide at every size"),
        Change("recipe.tokens", 36e12, TRAINING, "twice the data again"),
    ],
    weaknesses=("quadratic-attention",),
    sizes={
        "qwen3-0.6b": Size(shape(1024, 28, 16, 3072, vocab=151_936, kv_heads=8, head_dim=128) | TIED,
                           "Qwen/Qwen3-0.6B-Base", 0.6e9),
        "qwen3-8b": Size(shape(4096, 36, 32, 12_288, vocab=151_936, kv_heads=8), "Qwen/Qwen3-8B-Base", 8.2e9),
    },
)  # fmt: skip

_SIXTY = Experts(
    count=60, active=4, width=1408, activation="silu", shared_width=5632, shared_gate=True,
    router=SoftmaxRouter(normalise=False, balance=0.001),
)  # fmt: skip
QWEN2_MOE = QWEN2.variant(
    "qwen2-moe",
    cite="Qwen Team 2024, Qwen1.5-MoE",
    changes=[
        Change(f"{STACK}.block.feedforward", _SIXTY, MECHANISM, "four of sixty small experts, and a gated one for all",
               relieves="latency"),
        Change(f"{STACK}.block.attention.kv_heads", 12, MECHANISM, "keys and values of its own for every head"),
    ],
    weaknesses=("quadratic-attention", "kv-memory"),
    sizes={"qwen1.5-moe-a2.7b": Size(shape(2048, 24, 16, 1408, vocab=151_936), "Qwen/Qwen1.5-MoE-A2.7B", 14.3e9)},
)  # fmt: skip

_MANY = Experts(count=128, active=8, width=768, activation="silu", router=SoftmaxRouter(balance=0.001))
QWEN3_MOE = QWEN3.variant(
    "qwen3-moe",
    cite="Qwen Team 2025, arXiv:2505.09388",
    changes=[Change(f"{STACK}.block.feedforward", _MANY, MECHANISM, "eight of 128 experts, none shared",
                    relieves="latency")],
    weaknesses=("quadratic-attention",),
    sizes={"qwen3-30b-a3b": Size(shape(2048, 48, 32, 768, vocab=151_936, kv_heads=4, head_dim=128),
                                 "Qwen/Qwen3-30B-A3B-Base", 30.5e9)},
)  # fmt: skip
MODELS = (QWEN2, QWEN25, QWEN3, QWEN2_MOE, QWEN3_MOE)
