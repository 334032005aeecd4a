"""GPT-2 and the road to LLaMA: one change at a time."""

from __future__ import annotations

from typing import Any

from variorum.spec.architecture import Architecture, Block, Init, Stack, pre
from variorum.spec.attention import ALL_PROJECTIONS, Attention
from variorum.spec.feedforward import MLP, Experts, GatedMLP, SoftmaxRouter
from variorum.spec.heads import SequenceHead, TokenHead, VocabularyHead
from variorum.spec.inputs import TokenInput
from variorum.spec.model import MECHANISM, POSITIONS, TOKENIZER, TRAINING, Change, Model, Size
from variorum.spec.norms import LayerNorm, RMSNorm
from variorum.spec.positions import Learned, Llama3Scaling, Rotary
from variorum.spec.recipe import Objective, Recipe, Tokenizer

STACK = "architecture.decoder"
TABLE = "decoder.input.table"
NORM = LayerNorm(eps=1e-5)
RMS = RMSNorm(eps=1e-6)


def shape(
    width: int, depth: int, heads: int, ff: int, *, vocab: int, kv_heads: int | None = None,
    head_dim: int | None = None, **more: Any,
) -> dict[str, object]:  # fmt: skip
    """The paths that a published decoder size sets; further paths below the decoder come as keywords."""
    return {
        "architecture.width": width,
        f"{STACK}.depth": depth,
        f"{STACK}.input.vocab": vocab,
        f"{STACK}.block.attention.heads": heads,
        f"{STACK}.block.attention.kv_heads": kv_heads or heads,
        f"{STACK}.block.attention.head_dim": head_dim or width // heads,
        f"{STACK}.block.feedforward.width": ff,
        **{f"{STACK}.{path.replace('__', '.')}": value for path, value in more.items()},
    }


GPT2 = Model(
    name="gpt2",
    cite="Radford et al. 2019",
    architecture=Architecture(
        width=768,
        decoder=Stack(
            input=TokenInput(vocab=50_257, positions=Learned(rows=1024), pad_id=None, dropout=0.1),
            depth=12,
            block=Block(
                attention=Attention(heads=12, kv_heads=12, head_dim=64, bias=ALL_PROJECTIONS, dropout=0.1),
                feedforward=MLP(width=3072, activation="gelu_tanh"),
                layout=pre(NORM),
                dropout=0.1,
            ),
            mask="causal",
            final_norm=NORM,
        ),
        heads={
            "causal_lm": VocabularyHead(tie=TABLE),
            "sequence_classification": SequenceHead(take="last", bias=False, dropout=0.0),
            "token_classification": TokenHead(),
            "question_answering": TokenHead(dropout=0.0),
        },
        init=Init(residual="depth"),
    ),
    tokenizer=Tokenizer(kind="byte-bpe"),
    objective=Objective(kind="causal_lm"),
    recipe=Recipe(batch=512, length=1024, learning_rate=2.5e-4, warmup=2000, weight_decay=0.01, schedule="cosine"),
    repo="openai-community/gpt2",
    published=124e6,
    weaknesses=("length-extrapolation", "kv-memory", "quadratic-attention"),
    sizes={
        "gpt2-small": Size(shape(768, 12, 12, 3072, vocab=50_257), "openai-community/gpt2", 124e6),
        "gpt2-medium": Size(shape(1024, 24, 16, 4096, vocab=50_257), "openai-community/gpt2-medium", 355e6),
        "gpt2-large": Size(shape(1280, 36, 20, 5120, vocab=50_257), "openai-community/gpt2-large", 774e6),
        "gpt2-xl": Size(shape(1600, 48, 25, 6400, vocab=50_257), "openai-community/gpt2-xl", 1.5e9),
    },
)

LLAMA = GPT2.variant(
    "llama",
    cite="Touvron et al. 2023, arXiv:2302.13971",
    changes=[
        Change(f"{STACK}.positions", Rotary(), POSITIONS, "scores depend on distance alone",
               relieves="length-extrapolation", also={f"{STACK}.input.positions": None}),
        Change(f"{STACK}.block.layout.norm", RMS, MECHANISM, "as good as LayerNorm, with less to compute",
               relieves="latency", also={f"{STACK}.final_norm": RMS}),
        Change(f"{STACK}.block.feedforward", GatedMLP(width=2048, activation="silu"), MECHANISM,
               "SwiGLU learns more per parameter", relieves="data-efficiency", also={"architecture.init":
                                                                                        Init(std=None)}),
        Change(f"{STACK}.block.attention.bias", (), MECHANISM, "biases buy nothing at scale"),
        Change("architecture.heads.causal_lm.tie", None, MECHANISM, "large tables need not be shared"),
        Change(f"{STACK}.block.dropout", 0.0, TRAINING, "each text is seen once",
               also={f"{STACK}.input.dropout": 0.0, f"{STACK}.block.attention.dropout": 0.0}),
        Change("tokenizer", Tokenizer(kind="bpe"), TOKENIZER, "SentencePiece with byte fallback",
               also={f"{STACK}.input.vocab": 32_000}),
        Change("recipe", Recipe(length=2048, learning_rate=3e-4, warmup=2000, weight_decay=0.1, schedule="cosine",
                                tokens=1e12), TRAINING, "smaller models, many more tokens",
               relieves="under-training"),
    ],
    weaknesses=("kv-memory", "quadratic-attention"),
    sizes={
        "llama-7b": Size(shape(4096, 32, 32, 11_008, vocab=32_000), "huggyllama/llama-7b", 6.7e9),
        "llama-13b": Size(shape(5120, 40, 40, 13_824, vocab=32_000), "huggyllama/llama-13b", 13e9),
    },
)  # fmt: skip

LLAMA2 = LLAMA.variant(
    "llama-2",
    cite="Touvron et al. 2023, arXiv:2307.09288",
    changes=[
        Change(f"{STACK}.block.layout.norm.eps", 1e-5, TRAINING, "released code",
               also={f"{STACK}.final_norm.eps": 1e-5}),
        Change("recipe.tokens", 2e12, TRAINING, "twice the data, twice the length",
               also={"recipe.length": 4096}),
    ],
    weaknesses=("kv-memory", "quadratic-attention"),
    sizes={
        "llama-2-7b": Size(shape(4096, 32, 32, 11_008, vocab=32_000), "meta-llama/Llama-2-7b-hf", 6.7e9),
        "llama-2-13b": Size(shape(5120, 40, 40, 13_824, vocab=32_000), "meta-llama/Llama-2-13b-hf", 13e9),
        "llama-2-70b": Size(shape(8192, 80, 64, 28_672, vocab=32_000, kv_heads=8), "meta-llama/Llama-2-70b-hf", 69e9),
    },
)  # fmt: skip

LLAMA3 = LLAMA2.variant(
    "llama-3",
    cite="Grattafiori et al. 2024, arXiv:2407.21783",
    changes=[
        Change(f"{STACK}.block.attention.kv_heads", 4, MECHANISM, "query heads share keys and values",
               relieves="kv-memory"),
        Change(f"{STACK}.positions.theta", 500_000.0, POSITIONS, "slower rotation, longer contexts",
               relieves="length-extrapolation"),
        Change("tokenizer", Tokenizer(kind="byte-bpe"), TOKENIZER, "128k tokens: shorter texts",
               also={f"{STACK}.input.vocab": 128_256}),
        Change("recipe.tokens", 15e12, TRAINING, "fifteen trillion tokens", also={"recipe.length": 8192}),
    ],
    weaknesses=("quadratic-attention",),
    sizes={
        "llama-3-8b": Size(shape(4096, 32, 32, 14_336, vocab=128_256, kv_heads=8), "meta-llama/Meta-Llama-3-8B", 8e9),
        "llama-3-70b": Size(shape(8192, 80, 64, 28_672, vocab=128_256, kv_heads=8), "meta-llama/Meta-Llama-3-70B",
                            70e9),
    },
)  # fmt: skip

_SCALED = Llama3Scaling(factor=8.0)
LLAMA31 = LLAMA3.variant(
    "llama-3.1",
    cite="Grattafiori et al. 2024, arXiv:2407.21783",
    changes=[
        Change(f"{STACK}.positions.scaling", _SCALED, POSITIONS, "128k context by slowing low frequencies",
               relieves="length-extrapolation", also={"recipe.length": 131_072}),
    ],
    sizes={
        "llama-3.1-8b": Size(shape(4096, 32, 32, 14_336, vocab=128_256, kv_heads=8), "meta-llama/Llama-3.1-8B", 8e9),
        "llama-3.1-405b": Size(shape(16_384, 126, 128, 53_248, vocab=128_256, kv_heads=8), "meta-llama/Llama-3.1-405B",
                               405e9),
    },
)  # fmt: skip

MISTRAL_SIZES = {
    "mistral-7b-v0.1": Size(
        shape(4096, 32, 32, 14_336, vocab=32_000, kv_heads=8), "mistralai/Mistral-7B-v0.1", published=7.24e9
    ),
}
MISTRAL = LLAMA2.variant("mistral", cite="Jiang et al. 2023, arXiv:2310.06825", sizes=MISTRAL_SIZES, changes=[
    Change(f"{STACK}.block.attention.kv_heads", 4, MECHANISM, "query heads share keys and values",
           relieves="kv-memory"),
    Change(f"{STACK}.block.attention.window", 4096, MECHANISM, "each layer looks back 4096 tokens",
           relieves="quadratic-attention"),
], weaknesses=("length-extrapolation",))  # fmt: skip

MIXTRAL = MISTRAL.variant(
    "mixtral",
    cite="Jiang et al. 2024, arXiv:2401.04088",
    changes=[
        Change(f"{STACK}.block.feedforward",
               Experts(count=8, active=2, width=14_336, activation="silu", router=SoftmaxRouter(balance=0.02)),
               MECHANISM, "each token uses two of eight feed-forwards", relieves="latency"),
        Change(f"{STACK}.block.attention.window", None, MECHANISM, "full attention again"),
        Change(f"{STACK}.positions.theta", 1e6, POSITIONS, "32k context"),
    ],
    weaknesses=("quadratic-attention",),
    sizes={
        "mixtral-8x7b": Size(shape(4096, 32, 32, 14_336, vocab=32_000, kv_heads=8), "mistralai/Mixtral-8x7B-v0.1",
                             46.7e9),
        "mixtral-8x22b": Size(shape(6144, 56, 48, 16_384, vocab=32_000, kv_heads=8), "mistralai/Mixtral-8x22B-v0.1",
                              141e9),
    },
)  # fmt: skip
MODELS = (GPT2, LLAMA, LLAMA2, LLAMA3, LLAMA31, MISTRAL, MIXTRAL)
