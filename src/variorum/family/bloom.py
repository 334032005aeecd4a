"""BLOOM and MPT: GPT-2 with linear biases in place of position vectors."""

from __future__ import annotations

from typing import Any

from variorum.family.gpt import GPT2, NORM, STACK, shape
from variorum.spec.architecture import pre
from variorum.spec.model import MECHANISM, POSITIONS, TOKENIZER, TRAINING, Change, Size
from variorum.spec.norms import LayerNorm
from variorum.spec.positions import Alibi
from variorum.spec.recipe import Recipe


def _bloom(name: str, width: int, depth: int, heads: int, published: float) -> Size:
    return Size(shape(width, depth, heads, 4 * width, vocab=250_880), f"bigscience/{name}", published)


def _mpt(name: str, width: int, depth: int, heads: int, published: float, **more: Any) -> Size:
    return Size(shape(width, depth, heads, 4 * width, vocab=50_432, **more), f"mosaicml/{name}", published)


BLOOM = GPT2.variant(
    "bloom",
    cite="BigScience Workshop 2022, arXiv:2211.05100",
    changes=[
        Change(f"{STACK}.positions", Alibi(), POSITIONS, "scores fall with distance, at a slope a head",
               relieves="length-extrapolation", also={f"{STACK}.input.positions": None}),
        Change(f"{STACK}.input.norm", NORM, MECHANISM, "a norm on the embeddings keeps float16 runs stable",
               relieves="training-stability"),
        Change(f"{STACK}.block.feedforward.activation", "gelu_megatron", MECHANISM, "Megatron's fused GELU"),
        Change(f"{STACK}.block.dropout", 0.0, TRAINING, "each text is seen once",
               also={f"{STACK}.input.dropout": 0.0, f"{STACK}.block.attention.dropout": 0.0}),
        Change(f"{STACK}.input.vocab", 250_880, TOKENIZER, "46 languages and 13 programming languages",
               also={f"{STACK}.input.pad_id": 3}),
        Change("recipe", Recipe(batch=2048, length=2048, learning_rate=6e-5, weight_decay=0.1, schedule="cosine",
                                tokens=366e9), TRAINING, "ROOTS, an open multilingual corpus"),
    ],
    weaknesses=("kv-memory", "quadratic-attention", "under-training"),
    sizes={
        "bloom-560m": _bloom("bloom-560m", 1024, 24, 16, 559e6),
        "bloom-1b1": _bloom("bloom-1b1", 1536, 24, 16, 1.1e9),
        "bloom-1b7": _bloom("bloom-1b7", 2048, 24, 16, 1.7e9),
        "bloom-3b": _bloom("bloom-3b", 2560, 30, 32, 3e9),
        "bloom-7b1": _bloom("bloom-7b1", 4096, 30, 32, 7.07e9),
        "bloom-176b": _bloom("bloom", 14_336, 70, 112, 176e9),
    },
)  # fmt: skip

_BARE = LayerNorm(eps=1e-5, bias=False)
MPT = GPT2.variant(
    "mpt",
    cite="MosaicML 2023, mosaicml.com/blog/mpt-7b",
    changes=[
        Change(f"{STACK}.positions", Alibi(), POSITIONS, "scores fall with distance, at a slope a head",
               relieves="length-extrapolation", also={f"{STACK}.input.positions": None}),
        Change(f"{STACK}.block.layout", pre(_BARE), MECHANISM, "no biases anywhere: stabler, and nothing is lost",
               relieves="training-stability",
               also={f"{STACK}.final_norm": _BARE, f"{STACK}.block.attention.bias": (),
                     f"{STACK}.block.feedforward.bias": False}),
        Change(f"{STACK}.block.feedforward.activation", "gelu", MECHANISM, "the exact GELU"),
        Change(f"{STACK}.block.dropout", 0.0, TRAINING, "each text is seen once",
               also={f"{STACK}.input.dropout": 0.0, f"{STACK}.block.attention.dropout": 0.0}),
        Change(f"{STACK}.input.vocab", 50_432, TOKENIZER, "GPT-NeoX's BPE, the table padded to a multiple of 128"),
        Change("recipe", Recipe(length=2048, schedule="cosine", tokens=1e12), TRAINING, "a trillion tokens, once",
               relieves="under-training"),
    ],
    weaknesses=("kv-memory", "quadratic-attention"),
    sizes={
        "mpt-7b": _mpt("mpt-7b", 4096, 32, 32, 6.7e9),
        "mpt-7b-storywriter": _mpt("mpt-7b-storywriter", 4096, 32, 32, 6.7e9,
                                   block__attention__clip=6.0, positions__max_bias=16.0),
        "mpt-30b": _mpt("mpt-30b", 7168, 48, 64, 30e9),
    },
)  # fmt: skip
MODELS = (BLOOM, MPT)
