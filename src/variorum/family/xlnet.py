"""XLNet: permutation language modelling on Transformer-XL's relative positions."""

from __future__ import annotations

from variorum.family.bert import BERT, TABLE, shape
from variorum.spec.heads import SequenceHead, SpanHead, TokenHead, Transform, VocabularyHead
from variorum.spec.model import OBJECTIVE, POSITIONS, TOKENIZER, TRAINING, Change, Size
from variorum.spec.positions import RecurrentRelative
from variorum.spec.recipe import Masking, Objective, Recipe, Tokenizer

STACK = "architecture.encoder"
#: One token in six is predicted, in runs of one to five, each from those before it in the order (released code).
_LAST = Masking(rate=1 / 6, mask=1.0, random=0.0, span=3.0)
XLNET = BERT.variant(
    "xlnet",
    cite="Yang et al. 2019, arXiv:1906.08237",
    changes=[
        Change("objective", Objective(kind="permutation_lm", masking=_LAST), axis=OBJECTIVE,
               why="predicts in random order, so no artificial [MASK] and no independence between targets",
               relieves="task-alignment",
               also={f"{STACK}.input.query_vector": True, "architecture.heads.next_sentence": None,
                     "architecture.heads.masked_lm": None, "architecture.pooler": None,
                     "architecture.heads.permutation_lm": VocabularyHead(tie=TABLE, bias=True),
                     "architecture.heads.sequence_classification":
                     SequenceHead(take="last", transform=Transform(activation="tanh")),
                     "architecture.heads.multiple_choice":
                     SequenceHead(take="last", labels=1, transform=Transform(activation="tanh")),
                     "architecture.heads.token_classification": TokenHead(dropout=0.0),
                     "architecture.heads.answer_span": SpanHead(norm=BERT.architecture.main.block.layout.norm)}),
        Change(f"{STACK}.positions", RecurrentRelative(segments=True), axis=POSITIONS,
               why="relative positions and segments, and memory across segments", relieves="length-extrapolation",
               also={f"{STACK}.input.positions": None, f"{STACK}.input.segments": 0, f"{STACK}.input.norm": None,
                     f"{STACK}.block.attention.bias": (), f"{STACK}.dropout": 0.1,
                     f"{STACK}.block.feedforward.dropout": 0.1}),
        Change("tokenizer", Tokenizer(kind="unigram"), axis=TOKENIZER, why="SentencePiece, cased",
               also={f"{STACK}.input.vocab": 32_000, f"{STACK}.input.pad_id": 5}),
        Change("recipe", Recipe(batch=8192, length=512, steps=500_000, learning_rate=4e-4, warmup=40_000,
                                weight_decay=0.01, schedule="linear"), axis=TRAINING,
               why="ten times the text, larger batches", relieves="under-training"),
    ],
    weaknesses=("latency",),
    sizes={
        "xlnet-base-cased": Size(shape(768, 12, 12, vocab=32_000), "xlnet/xlnet-base-cased", 110e6),
        "xlnet-large-cased": Size(shape(1024, 24, 16, vocab=32_000), "xlnet/xlnet-large-cased", 340e6),
    },
)  # fmt: skip
MODELS = (XLNET,)
