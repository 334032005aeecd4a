"""DeBERTa v1 to v3: attention that keeps what a token is apart from where it is."""

from __future__ import annotations

import dataclasses

from variorum.family.bert import BERT, TABLE, shape
from variorum.spec.architecture import Convolution
from variorum.spec.attention import ALL_PROJECTIONS
from variorum.spec.heads import EnhancedMaskDecoder, SequenceHead, TokenHead, Transform
from variorum.spec.model import MECHANISM, OBJECTIVE, POSITIONS, TOKENIZER, TRAINING, Change, Size
from variorum.spec.norms import LayerNorm
from variorum.spec.positions import Disentangled
from variorum.spec.recipe import Generator, Masking, Objective, Recipe, Tokenizer

NORM = LayerNorm(eps=1e-7)
STACK = "architecture.encoder"
SCALE = (64 * 3) ** -0.5
POOLED = SequenceHead(take="first", transform=Transform(activation="gelu"), dropout=0.0)

DEBERTA = BERT.variant(
    "deberta",
    cite="He et al. 2020, arXiv:2006.03654",
    changes=[
        Change(f"{STACK}.positions", Disentangled(span=512), axis=POSITIONS,
               why="content and relative position attend separately", relieves="data-efficiency",
               also={f"{STACK}.input.positions": None, f"{STACK}.block.attention.bias": ("query", "value", "out"),
                     f"{STACK}.block.attention.scale": SCALE}),
        Change("architecture.heads.masked_lm",
               EnhancedMaskDecoder(tie=TABLE, bias=True, rows=512, transform=Transform(activation="gelu", norm=NORM)),
               axis=POSITIONS, why="absolute positions are told last, where a word is chosen",
               relieves="task-alignment"),
        Change(f"{STACK}.input.segments", 0, axis=OBJECTIVE, why="no pairs in pretraining"),
        Change("objective.pair", None, axis=OBJECTIVE, why="next-sentence prediction did not help",
               relieves="useless-objective",
               also={"architecture.heads.next_sentence": None, "architecture.pooler": None,
                     "architecture.heads.sequence_classification": POOLED,
                     "architecture.heads.multiple_choice": dataclasses.replace(POOLED, labels=1)}),
        Change(f"{STACK}.block.layout.norm", NORM, axis=TRAINING, why="released code",
               also={f"{STACK}.input.norm": NORM}),
        Change("tokenizer", Tokenizer(kind="byte-bpe"), axis=TOKENIZER, why="GPT-2's",
               also={f"{STACK}.input.vocab": 50_265}),
        Change("recipe", Recipe(batch=2048, length=512, steps=1_000_000, learning_rate=2e-4, warmup=10_000,
                                weight_decay=0.01, schedule="linear", betas=(0.9, 0.999), eps=1e-6, clip=1.0,
                                format="full_sentences"), axis=TRAINING,
               why="half of RoBERTa's text, larger batches than BERT's", relieves="under-training"),
    ],
    weaknesses=("latency",),
    sizes={
        "deberta-base": Size(shape(768, 12, 12, vocab=50_265), "microsoft/deberta-base", 140e6),
        "deberta-large": Size(shape(1024, 24, 16, vocab=50_265), "microsoft/deberta-large", 400e6),
    },
)  # fmt: skip


def _v2(width: int, depth: int, heads: int, vocab: int, name: str, published: float) -> Size:
    return Size(shape(width, depth, heads, vocab=vocab), f"microsoft/{name}", published)


DEBERTA_V2 = DEBERTA.variant(
    "deberta-v2",
    cite="He et al. 2020, released code of 2021",
    changes=[
        Change(f"{STACK}.positions",
               Disentangled(span=256, buckets=256, max_distance=512, projections="shared", norm=NORM),
               axis=POSITIONS, why="logarithmic buckets; positions reuse the content projections",
               relieves="parameter-bloat", also={f"{STACK}.block.attention.bias": ALL_PROJECTIONS}),
        Change(f"{STACK}.inserts", {0: Convolution(kernel=3, activation="tanh", norm=NORM, dropout=0.1)},
               axis=MECHANISM, why="n-grams early on"),
        Change("tokenizer", Tokenizer(kind="unigram"), axis=TOKENIZER, why="128k pieces",
               also={f"{STACK}.input.vocab": 128_100}),
        Change("recipe", Recipe(length=512), axis=TRAINING, why="160 GB of text; no more was published"),
    ],
    sizes={"deberta-v2-xlarge": _v2(1536, 24, 24, 128_100, "deberta-v2-xlarge", 900e6)},
)  # fmt: skip

DEBERTA_V3 = DEBERTA_V2.variant(
    "deberta-v3",
    cite="He et al. 2021, arXiv:2111.09543",
    changes=[
        Change("objective", Objective(kind="replaced_token", masking=Masking(mask=1.0, random=0.0),
                                      generator=Generator(width=1.0, depth=0.5, embeddings="disentangled")),
               axis=OBJECTIVE,
               why="every token is a training signal; embeddings shared without their gradients fighting",
               relieves="signal-density",
               also={"architecture.heads.replaced_token":
                     TokenHead(labels=1, context=NORM, transform=Transform(activation="gelu"), dropout=0.0)}),
        Change(f"{STACK}.inserts", {}, axis=MECHANISM, why="not needed"),
        Change("recipe", Recipe(batch=8192, length=512, steps=500_000, warmup=10_000), axis=TRAINING,
               why="larger batches, half the steps"),
    ],
    sizes={
        "deberta-v3-xsmall": _v2(384, 12, 6, 128_100, "deberta-v3-xsmall", 70e6),
        "deberta-v3-small": _v2(768, 6, 12, 128_100, "deberta-v3-small", 141e6),
        "deberta-v3-base": _v2(768, 12, 12, 128_100, "deberta-v3-base", 184e6),
        "deberta-v3-large": _v2(1024, 24, 16, 128_100, "deberta-v3-large", 435e6),
        "mdeberta-v3-base": _v2(768, 12, 12, 251_000, "mdeberta-v3-base", 276e6),
    },
)  # fmt: skip
MODELS = (DEBERTA, DEBERTA_V2, DEBERTA_V3)
