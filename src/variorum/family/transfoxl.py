"""Transformer-XL: a decoder that remembers, and a vocabulary so large that rare words get narrow vectors."""

from __future__ import annotations

import dataclasses

from variorum.family.gpt import shape
from variorum.family.transformer import TRANSFORMER
from variorum.spec.architecture import Init
from variorum.spec.feedforward import MLP
from variorum.spec.heads import AdaptiveSoftmax, SequenceHead
from variorum.spec.inputs import Clusters, TokenInput
from variorum.spec.model import BUDGET, COMPRESSION, MECHANISM, OBJECTIVE, POSITIONS, TOKENIZER, TRAINING, Change, Size
from variorum.spec.positions import RecurrentRelative
from variorum.spec.recipe import Objective, Recipe, Tokenizer

D, H = "architecture.decoder", "architecture.heads"
TABLE = "decoder.input.table"
_CLUSTERS = Clusters(cutoffs=(20_000, 40_000, 200_000))
_WORDS = TokenInput(vocab=267_735, rank=1024, clusters=_CLUSTERS, scale=1024**0.5, pad_id=None, dropout=0.1)
_UNCERTAIN = {"published": "the paper says 257 million; the released weights are 285 million"}
TRANSFORMER_XL = TRANSFORMER.variant(
    "transformer-xl",
    cite="Dai et al. 2019, arXiv:1901.02860",
    changes=[
        Change("architecture.encoder", None, MECHANISM, "text continues text: nothing is read before it",
               relieves="task-alignment", also={f"{D}.block.cross": None}),
        Change("objective", Objective(kind="causal_lm"), OBJECTIVE, "any text teaches", relieves="data-efficiency",
               also={H: {"causal_lm": AdaptiveSoftmax(tie=TABLE, tied_projections=(1, 2, 3)),
                         "sequence_classification": SequenceHead(take="last", bias=False, dropout=0.0)}}),
        Change(f"{D}.memory", 1600, MECHANISM, "each segment reads the states that the last ones left",
               relieves="length-extrapolation", also={f"{D}.first_memory": "zeros"}),
        Change(f"{D}.positions", RecurrentRelative(clamp=1000), POSITIONS,
               "a remembered state has no place in this segment, only a distance", relieves="length-extrapolation"),
        Change(f"{D}.block.attention.window", 1600, MECHANISM, "as many keys for every token, however long the segment",
               relieves="quadratic-attention"),
        Change(f"{D}.input", _WORDS, COMPRESSION, "rare words get a quarter, a 16th and a 64th of the width",
               relieves="parameter-bloat"),
        Change(f"{D}.block.attention.heads", 16, BUDGET, "wider and deeper",
               also={"architecture.width": 1024, f"{D}.depth": 18, f"{D}.block.attention.kv_heads": 16}),
        Change(f"{D}.block.feedforward", MLP(width=4096, activation="relu", dropout=0.1), TRAINING,
               "dropout inside the feed-forward and on the last states", also={f"{D}.dropout": 0.1}),
        Change(f"{D}.block.layout.norm.eps", 1e-5, TRAINING, "released code"),
        Change("architecture.init", Init(), TRAINING, "released code"),
        Change("tokenizer", Tokenizer(kind="words"), TOKENIZER, "every word of WikiText-103"),
        Change("recipe", Recipe(batch=128, length=384, steps=4_000_000, learning_rate=2.5e-4, warmup=16_000,
                                schedule="cosine"), TRAINING, "segments of 384 tokens with as many remembered"),
    ],
    weaknesses=("latency", "parameter-bloat"),
    sizes={
        "transfo-xl-wt103": Size(shape(1024, 18, 16, 4096, vocab=267_735), "transfo-xl/transfo-xl-wt103", 257e6,
                                 uncertain=_UNCERTAIN),
    },
)  # fmt: skip
TRANSFORMER_XL = dataclasses.replace(
    TRANSFORMER_XL, repo="transfo-xl/transfo-xl-wt103", published=257e6, uncertain=_UNCERTAIN
)
MODELS = (TRANSFORMER_XL,)
