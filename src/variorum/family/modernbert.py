"""ModernBERT: BERT with everything that decoders learned since."""

from __future__ import annotations

from variorum.family.bert import BERT, TABLE, shape
from variorum.spec.architecture import At, pre
from variorum.spec.attention import Attention
from variorum.spec.feedforward import GatedMLP
from variorum.spec.heads import SequenceHead, TokenHead, Transform, VocabularyHead
from variorum.spec.model import MECHANISM, OBJECTIVE, POSITIONS, TOKENIZER, TRAINING, Change, Size
from variorum.spec.norms import LayerNorm
from variorum.spec.positions import Rotary
from variorum.spec.recipe import Masking, Recipe, Tokenizer

NORM = LayerNorm(eps=1e-5, bias=False)
TRANSFORM = Transform(activation="gelu", norm=NORM, bias=False)
STACK = "architecture.encoder"


def _pattern(theta: float = 160_000.0) -> tuple[At, ...]:
    return (
        At(layers="::3", set={"attention.window": None, "positions.theta": theta}),
        At(layers="0", set={"layout.attention": ()}),
    )


MODERNBERT = BERT.variant(
    "modernbert",
    cite="Warner et al. 2024, arXiv:2412.13663",
    changes=[
        Change(f"{STACK}.positions", Rotary(theta=10_000.0), axis=POSITIONS, why="relative, and extends",
               relieves="length-extrapolation", also={f"{STACK}.input.positions": None}),
        Change(f"{STACK}.input.segments", 0, axis=OBJECTIVE, why="no pairs in pretraining"),
        Change("objective.pair", None, axis=OBJECTIVE, why="next-sentence prediction did not help",
               relieves="useless-objective",
               also={"architecture.heads.next_sentence": None, "architecture.pooler": None}),
        Change("objective.masking", Masking(rate=0.3), axis=OBJECTIVE, why="more targets per text",
               relieves="signal-density"),
        Change(f"{STACK}.block.layout", pre(NORM), axis=MECHANISM, why="pre-norm trains deep stacks stably",
               relieves="training-stability", also={f"{STACK}.input.norm": NORM, f"{STACK}.final_norm": NORM}),
        Change(f"{STACK}.block.feedforward", GatedMLP(width=1152, activation="gelu"), axis=MECHANISM,
               why="GeGLU learns more per parameter", relieves="data-efficiency"),
        Change(f"{STACK}.block.attention", Attention(heads=12, kv_heads=12, head_dim=64, window=128), axis=MECHANISM,
               why="two layers of three look 64 tokens around; no biases", relieves="quadratic-attention",
               also={f"{STACK}.pattern": _pattern()}),
        Change(f"{STACK}.depth", 22, axis=MECHANISM, why="deep and narrow runs well on GPUs"),
        Change(f"{STACK}.block.dropout", 0.0, axis=TRAINING, why="data is not scarce",
               also={f"{STACK}.input.dropout": 0.0}),
        Change("tokenizer", Tokenizer(kind="byte-bpe"), axis=TOKENIZER, why="code and spaces",
               also={f"{STACK}.input.vocab": 50_368, f"{STACK}.input.pad_id": 50_283}),
        Change("architecture.heads.masked_lm", VocabularyHead(tie=TABLE, bias=True, transform=TRANSFORM),
               axis=MECHANISM, why="bias-free transform",
               also={"architecture.heads.sequence_classification":
                     SequenceHead(take="first", transform=TRANSFORM, dropout=0.0),
                     "architecture.heads.multiple_choice":
                     SequenceHead(take="first", labels=1, transform=TRANSFORM, dropout=0.0),
                     "architecture.heads.token_classification": TokenHead(transform=TRANSFORM, dropout=0.0),
                     "architecture.heads.question_answering": TokenHead(transform=TRANSFORM, dropout=0.0)}),
        Change("recipe", Recipe(batch=4608, length=8192, tokens=2.019e12, learning_rate=8e-4, weight_decay=1e-5,
                                schedule="trapezoid", betas=(0.9, 0.98), eps=1e-6, clip=0.0, early_length=1024,
                                early_share=0.85, format="full_sentences"), axis=TRAINING,
               why="1.72 trillion tokens at length 1024, then 0.3 at 8192",
               relieves="under-training"),
    ],
    sizes={
        "ModernBERT-base": Size(shape(768, 22, 12, vocab=50_368, ff=1152), "answerdotai/ModernBERT-base", 149e6),
        "ModernBERT-large": Size(
            shape(1024, 28, 16, vocab=50_368, ff=2624) | {"recipe.batch": 4928, "recipe.learning_rate": 5e-4},
            "answerdotai/ModernBERT-large", 395e6),
    },
)  # fmt: skip
MODELS = (MODERNBERT,)
