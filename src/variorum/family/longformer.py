"""Longformer: RoBERTa whose tokens see a window, and some of them everything."""

from __future__ import annotations

from variorum.family.bert import ROBERTA, E, H, shape
from variorum.spec.attention import ALL_PROJECTIONS, GlobalLocalAttention
from variorum.spec.heads import BesideSeparator, FirstToken
from variorum.spec.model import MECHANISM, POSITIONS, TRAINING, Change, Size
from variorum.spec.recipe import Recipe

ATTENTION = GlobalLocalAttention(heads=12, kv_heads=12, head_dim=64, bias=ALL_PROJECTIONS, window=512, dropout=0.1)
LONGFORMER = ROBERTA.variant(
    "longformer",
    cite="Beltagy et al. 2020, arXiv:2004.05150",
    changes=[
        Change(f"{E}.block.attention", ATTENTION, MECHANISM, "256 tokens to each side, and a few that see all",
               relieves="quadratic-attention",
               also={f"{H}.sequence_classification.global_tokens": FirstToken(),
                     f"{H}.question_answering.global_tokens": BesideSeparator(side="before"),
                     f"{H}.multiple_choice.global_tokens": BesideSeparator(side="after")}),
        Change(f"{E}.input.positions.rows", 4098, POSITIONS, "RoBERTa's 512 positions, copied eight times over",
               relieves="length-extrapolation"),
        Change("recipe", Recipe(batch=64, length=4096, steps=65_000, learning_rate=3e-5, warmup=500),
               TRAINING, "masked LM goes on from RoBERTa's weights"),
    ],
    weaknesses=("signal-density", "parameter-bloat"),
    sizes={
        "longformer-base-4096": Size(shape(768, 12, 12, vocab=50_265), "allenai/longformer-base-4096", 149e6),
        "longformer-large-4096": Size(shape(1024, 24, 16, vocab=50_265), "allenai/longformer-large-4096", 435e6),
    },
)  # fmt: skip
MODELS = (LONGFORMER,)
