"""T5: every task as text to text, on an encoder-decoder with bucketed relative positions."""

from __future__ import annotations

from variorum.spec.architecture import Architecture, Block, Init, Stack, pre
from variorum.spec.attention import Attention
from variorum.spec.feedforward import MLP, GatedMLP
from variorum.spec.heads import SequenceHead, TokenHead, Transform, VocabularyHead
from variorum.spec.inputs import TokenInput
from variorum.spec.model import MECHANISM, TRAINING, Change, Model, Size
from variorum.spec.norms import RMSNorm
from variorum.spec.positions import RelativeBuckets
from variorum.spec.recipe import Masking, Objective, Recipe, Tokenizer

NORM = RMSNorm(eps=1e-6)
TABLE = "encoder.input.table"
_ATTENTION = Attention(heads=12, kv_heads=12, head_dim=64, scale=1.0, dropout=0.1)
_FEEDFORWARD = MLP(width=3072, activation="relu", bias=False, dropout=0.1)
_ENCODER = Stack(
    input=TokenInput(vocab=32_128, dropout=0.1),
    depth=12,
    block=Block(attention=_ATTENTION, feedforward=_FEEDFORWARD, layout=pre(NORM), dropout=0.1),
    positions=RelativeBuckets(),
    mask="bidirectional",
    final_norm=NORM,
    dropout=0.1,
)
_DECODER = Stack(
    input=TokenInput(vocab=32_128, tie=TABLE, start_id=0, dropout=0.1),
    depth=12,
    block=Block(attention=_ATTENTION, cross=_ATTENTION, feedforward=_FEEDFORWARD, layout=pre(NORM), dropout=0.1),
    positions=RelativeBuckets(),
    mask="causal",
    final_norm=NORM,
    dropout=0.1,
)


def shape(
    width: int, depth: int, heads: int, ff: int, *, head_dim: int = 64, vocab: int = 32_128, tied: bool = True,
    decoder_depth: int | None = None,
) -> dict[str, object]:  # fmt: skip
    """The paths that a published T5 size sets."""
    values: dict[str, object] = {"architecture.width": width}
    for stack, layers in (("encoder", depth), ("decoder", decoder_depth or depth)):
        root = f"architecture.{stack}"
        values |= {f"{root}.depth": layers, f"{root}.input.vocab": vocab, f"{root}.block.feedforward.width": ff}
        for kind in ("attention", "cross") if stack == "decoder" else ("attention",):
            values |= {f"{root}.block.{kind}.{count}": heads for count in ("heads", "kv_heads")}
            values[f"{root}.block.{kind}.head_dim"] = head_dim
    if tied:
        values["architecture.heads.seq2seq_lm.scale"] = width**-0.5
    return values


T5 = Model(
    name="t5",
    cite="Raffel et al. 2019, arXiv:1910.10683",
    architecture=Architecture(
        width=768,
        encoder=_ENCODER,
        decoder=_DECODER,
        heads={
            "seq2seq_lm": VocabularyHead(tie=TABLE, scale=768**-0.5),
            "sequence_classification": SequenceHead(take="last", transform=Transform(activation="tanh"), dropout=0.0),
            "token_classification": TokenHead(),
            "question_answering": TokenHead(dropout=0.0),
        },
        init=Init(std=None),
    ),
    tokenizer=Tokenizer(kind="unigram"),
    objective=Objective(kind="span_corruption", masking=Masking(mask=1.0, random=0.0)),
    recipe=Recipe(batch=128, length=512, steps=524_288, learning_rate=1e-2, warmup=10_000, schedule="inverse_sqrt"),
    repo="google-t5/t5-base",
    published=220e6,
    weaknesses=("training-stability",),
    sizes={
        "t5-small": Size(shape(512, 6, 8, 2048), "google-t5/t5-small", 60e6),
        "t5-base": Size(shape(768, 12, 12, 3072), "google-t5/t5-base", 220e6),
        "t5-large": Size(shape(1024, 24, 16, 4096), "google-t5/t5-large", 770e6),
        "t5-3b": Size(shape(1024, 24, 32, 16_384, head_dim=128), "google-t5/t5-3b", 3e9),
        "t5-11b": Size(shape(1024, 24, 128, 65_536, head_dim=128), "google-t5/t5-11b", 11e9),
    },
)

_GATED = GatedMLP(width=2048, activation="gelu_tanh", dropout=0.1)
T5_V1_1 = T5.variant(
    "t5-v1_1",
    cite="Shazeer 2020, arXiv:2002.05202; T5 1.1 release",
    changes=[
        Change("architecture.encoder.block.feedforward", _GATED, axis=MECHANISM, why="GeGLU",
               relieves="data-efficiency", also={"architecture.decoder.block.feedforward": _GATED}),
        Change("architecture.heads.seq2seq_lm", VocabularyHead(), axis=MECHANISM,
               why="input and output tables untied, no output scaling"),
        Change("recipe", Recipe(batch=2048, length=512, schedule="inverse_sqrt"), axis=TRAINING,
               why="C4 only, no dropout in pretraining"),
    ],
    sizes={
        f"t5-v1_1-{size}": Size(shape(*dims, tied=False), f"google/t5-v1_1-{size}", published)
        for size, dims, published in (
            ("small", (512, 8, 6, 1024), 77e6), ("base", (768, 12, 12, 2048), 250e6),
            ("large", (1024, 24, 16, 2816), 780e6), ("xl", (2048, 24, 32, 5120), 3e9),
            ("xxl", (4096, 24, 64, 10_240), 11e9),
        )
    },
)  # fmt: skip
MODELS = (T5, T5_V1_1)
