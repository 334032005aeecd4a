"""GPT-NeoX and Pythia: GPT-2 with rotation, and its two sublayers side by side."""

from __future__ import annotations

from variorum.family.gpt import GPT2, NORM, STACK, shape
from variorum.spec.architecture import parallel
from variorum.spec.model import MECHANISM, POSITIONS, TOKENIZER, TRAINING, Change, Size
from variorum.spec.positions import Rotary
from variorum.spec.recipe import Recipe


def _size(name: str, width: int, depth: int, heads: int, published: float, vocab: int = 50_304) -> Size:
    return Size(shape(width, depth, heads, 4 * width, vocab=vocab), f"EleutherAI/{name}", published)


NEOX = GPT2.variant(
    "gpt-neox",
    cite="Black et al. 2022, arXiv:2204.06745",
    changes=[
        Change(f"{STACK}.positions", Rotary(fraction=0.25), POSITIONS, "a quarter of each head's channels is rotated",
               relieves="length-extrapolation", also={f"{STACK}.input.positions": None}),
        Change(f"{STACK}.block.layout", parallel(NORM), MECHANISM, "attention and feed-forward run at the same time",
               relieves="latency"),
        Change("architecture.heads.causal_lm.tie", None, MECHANISM, "large tables need not be shared"),
        Change(f"{STACK}.block.dropout", 0.0, TRAINING, "each text is seen once",
               also={f"{STACK}.input.dropout": 0.0, f"{STACK}.block.attention.dropout": 0.0}),
        Change(f"{STACK}.input.vocab", 50_432, TOKENIZER, "BPE trained on the Pile: runs of spaces are one token"),
        Change("recipe", Recipe(batch=1538, length=2048, steps=150_000, learning_rate=9.7e-5, warmup=1500,
                                weight_decay=0.01, schedule="cosine"), TRAINING, "the Pile, once"),
    ],
    weaknesses=("kv-memory", "quadratic-attention", "under-training"),
    sizes={"gpt-neox-20b": _size("gpt-neox-20b", 6144, 44, 64, 20e9, vocab=50_432)},
)  # fmt: skip

PYTHIA = NEOX.variant(
    "pythia",
    cite="Biderman et al. 2023, arXiv:2304.01373",
    changes=[
        Change(f"{STACK}.block.feedforward.activation", "gelu", MECHANISM, "the exact GELU"),
        Change("recipe", Recipe(batch=1024, length=2048, steps=143_000, learning_rate=6e-4, warmup=1430,
                                weight_decay=0.01, schedule="cosine", tokens=300e9), TRAINING,
               "one order of the same data for all sizes, so that training itself can be studied"),
        Change(f"{STACK}.input.vocab", 50_304, TOKENIZER, "the table padded to another multiple"),
    ],
    weaknesses=("kv-memory", "quadratic-attention", "under-training"),
    sizes={
        "pythia-70m": _size("pythia-70m", 512, 6, 8, 70e6),
        "pythia-160m": _size("pythia-160m", 768, 12, 12, 160e6),
        "pythia-410m": _size("pythia-410m", 1024, 24, 16, 410e6),
        "pythia-1b": _size("pythia-1b", 2048, 16, 8, 1e9),
        "pythia-1.4b": _size("pythia-1.4b", 2048, 24, 16, 1.4e9),
        "pythia-2.8b": _size("pythia-2.8b", 2560, 32, 32, 2.8e9),
        "pythia-6.9b": _size("pythia-6.9b", 4096, 32, 32, 6.9e9, vocab=50_432),
        "pythia-12b": _size("pythia-12b", 5120, 36, 40, 12e9, vocab=50_688),
    },
)  # fmt: skip
MODELS = (NEOX, PYTHIA)
