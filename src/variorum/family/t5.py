"""T5 and its descendants: every task as text to text, on an encoder-decoder with bucketed relative positions."""

from __future__ import annotations

import dataclasses

from variorum.family.transformer import ATTENTIONS, TRANSFORMER, also, both, shape
from variorum.spec.architecture import pre
from variorum.spec.feedforward import MLP, GatedMLP
from variorum.spec.heads import SequenceHead, TokenHead, Transform, VocabularyHead
from variorum.spec.model import BUDGET, MECHANISM, OBJECTIVE, POSITIONS, TOKENIZER, TRAINING, Change, Size
from variorum.spec.norms import RMSNorm
from variorum.spec.positions import RelativeBuckets
from variorum.spec.recipe import Masking, Objective, Recipe, Tokenizer

NORM = RMSNorm(eps=1e-6)
_PLAIN = MLP(width=2048, activation="relu", bias=False, dropout=0.1)
_JUDGES = SequenceHead(take="end", end_id=1, transform=Transform(activation="tanh"), dropout=0.0)
_SCALES = tuple(f"{path}.scale" for path in ATTENTIONS)
_DROPOUTS = (*(f"{path}.dropout" for path in ATTENTIONS), *both("dropout"))
_SPANS = Masking(mask=1.0, random=0.0, span=3.0)


def _tied(width: int, depth: int, heads: int, ff: int, head_dim: int = 64) -> dict[str, object]:
    """A size of the first release: the head reads the table, scaled by the root of the width."""
    return {
        **shape(width, depth, heads, ff, head_dim=head_dim, vocab=32_128),
        "architecture.heads.seq2seq_lm.scale": width**-0.5,
    }


_CHANGED = TRANSFORMER.variant(
    "t5",
    cite="Raffel et al. 2019, arXiv:1910.10683",
    changes=[
        Change("objective", Objective(kind="span_corruption", masking=_SPANS), OBJECTIVE,
               "the spans that are hidden are all that the decoder has to write", relieves="task-alignment"),
        Change("architecture.encoder.positions", RelativeBuckets(), POSITIONS,
               "a learned scalar per bucket of distances, one table a stack", relieves="length-extrapolation",
               also={"architecture.decoder.positions": RelativeBuckets(), **dict.fromkeys(both("input.positions"))}),
        Change("architecture.encoder.block.layout", pre(NORM), MECHANISM,
               "norms before each sublayer, without means or biases", relieves="training-stability",
               also={"architecture.decoder.block.layout": pre(NORM), **dict.fromkeys(both("final_norm"), NORM)}),
        Change("architecture.encoder.block.feedforward", _PLAIN, MECHANISM, "no biases anywhere",
               also=also(both("block.feedforward"), _PLAIN)),
        Change(_SCALES[0], 1.0, MECHANISM, "the scale of the scores is left to initialisation",
               also=also(_SCALES, 1.0)),
        Change("architecture.encoder.input.scale", None, MECHANISM, "the table is scaled where it scores, not in front",
               also={"architecture.decoder.input.scale": None, "architecture.heads.seq2seq_lm.scale": 768**-0.5,
                     "architecture.init.table": 1.0}),
        Change("architecture.heads.sequence_classification", _JUDGES, OBJECTIVE, "later classes read states directly",
               also={"architecture.heads.token_classification": TokenHead(),
                     "architecture.heads.question_answering": TokenHead(dropout=0.0)}),
        Change("tokenizer", Tokenizer(kind="unigram"), TOKENIZER, "SentencePiece; the last ids are sentinels",
               also=dict.fromkeys(both("input.vocab"), 32_128)),
        Change("architecture.width", 768, BUDGET, "220 million parameters",
               also={path: value for path, value in shape(768, 12, 12, 3072).items() if path != "architecture.width"}),
        Change("recipe", Recipe(batch=128, length=512, steps=524_288, learning_rate=1e-2, warmup=10_000,
                                schedule="inverse_sqrt", optimiser="adafactor", clip=0.0, format="stream"),
               TRAINING, "C4, then every task as text",
               relieves="under-training", also=dict.fromkeys(_DROPOUTS, 0.1)),
    ],
    weaknesses=("training-stability",),
    sizes={
        "t5-small": Size(_tied(512, 6, 8, 2048), "google-t5/t5-small", 60e6),
        "t5-base": Size(_tied(768, 12, 12, 3072), "google-t5/t5-base", 220e6),
        "t5-large": Size(_tied(1024, 24, 16, 4096), "google-t5/t5-large", 770e6),
        "t5-3b": Size(_tied(1024, 24, 32, 16_384, 128), "google-t5/t5-3b", 2.8e9),
        "t5-11b": Size(_tied(1024, 24, 128, 65_536, 128), "google-t5/t5-11b", 11e9),
    },
)  # fmt: skip
T5 = dataclasses.replace(_CHANGED, repo="google-t5/t5-base", published=220e6)

_GATED = GatedMLP(width=2048, activation="gelu_tanh", dropout=0.1)
#: size -> width, layers, heads, feed-forward: what v1.1 and all that came of it share.
SHAPES = {
    "small": (512, 8, 6, 1024), "base": (768, 12, 12, 2048), "large": (1024, 24, 16, 2816),
    "xl": (2048, 24, 32, 5120), "xxl": (4096, 24, 64, 10_240),
}  # fmt: skip


def _sizes(name: str, published: tuple[float, ...], vocab: int = 32_128) -> dict[str, Size]:
    return {
        f"{name}-{size}": Size(shape(*dims, head_dim=64, vocab=vocab), f"google/{name}-{size}", count)
        for (size, dims), count in zip(SHAPES.items(), published, strict=True)
    }


T5_V1_1 = T5.variant(
    "t5-v1_1",
    cite="Shazeer 2020, arXiv:2002.05202; T5 1.1 release",
    changes=[
        Change("architecture.encoder.block.feedforward", _GATED, axis=MECHANISM, why="GeGLU",
               relieves="data-efficiency", also=also(both("block.feedforward"), _GATED)),
        Change("architecture.heads.seq2seq_lm", VocabularyHead(), axis=MECHANISM,
               why="input and output tables untied, no output scaling"),
        Change("recipe", Recipe(batch=2048, length=512, schedule="inverse_sqrt"), axis=TRAINING,
               why="C4 only, no dropout in pretraining"),
    ],
    sizes=_sizes("t5-v1_1", (77e6, 250e6, 780e6, 3e9, 11e9)),
)  # fmt: skip

FLAN_T5 = T5_V1_1.variant(
    "flan-t5",
    cite="Chung et al. 2022, arXiv:2210.11416",
    changes=[
        Change("objective", Objective(kind="text_to_text"), OBJECTIVE, "1,836 tasks, each said as an instruction",
               relieves="task-alignment"),
    ],
    sizes=_sizes("flan-t5", (80e6, 250e6, 780e6, 3e9, 11e9)),
)  # fmt: skip

MT5 = T5_V1_1.variant(
    "mt5",
    cite="Xue et al. 2021, arXiv:2010.11934",
    changes=[
        Change("architecture.encoder.input.vocab", 250_112, TOKENIZER, "a vocabulary for 101 languages",
               also={"architecture.decoder.input.vocab": 250_112}),
        Change("recipe", Recipe(batch=1024, length=1024, steps=1_000_000, schedule="inverse_sqrt"), TRAINING,
               "mC4, rare languages drawn more often than they occur"),
    ],
    weaknesses=("parameter-bloat",),
    sizes=_sizes("mt5", (300e6, 580e6, 1.2e9, 3.7e9, 13e9), 250_112),
)  # fmt: skip

BYT5 = MT5.variant(
    "byt5",
    cite="Xue et al. 2022, arXiv:2105.13626",
    changes=[
        Change("tokenizer", Tokenizer(kind="bytes"), TOKENIZER, "bytes need no vocabulary, and no spelling is foreign",
               relieves="parameter-bloat", also=dict.fromkeys(both("input.vocab"), 384)),
        Change("architecture.decoder.depth", 4, BUDGET, "what the table cost goes into an encoder three times as deep",
               also={"architecture.encoder.depth": 12}),
        Change("objective.masking.span", 20.0, OBJECTIVE, "a span of 20 bytes is a few words"),
    ],
    weaknesses=("latency",),
    sizes={
        f"byt5-{size}": Size(
            shape(width, 3 * depth, heads, ff, head_dim=64, vocab=384, decoder_depth=depth),
            f"google/byt5-{size}", count,
        )
        for size, (width, depth, heads, ff), count in (
            ("small", (1472, 4, 6, 3584), 300e6), ("base", (1536, 6, 12, 3968), 582e6),
            ("large", (1536, 12, 16, 3840), 1.23e9), ("xl", (2560, 12, 32, 6720), 3.74e9),
            ("xxl", (4672, 12, 64, 12_352), 12.9e9),
        )
    },
)  # fmt: skip
MODELS = (T5, T5_V1_1, FLAN_T5, MT5, BYT5)
