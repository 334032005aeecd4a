"""From GPT-1 to GPT-3, and the road to LLaMA: one change at a time."""

from __future__ import annotations

import dataclasses
import functools

from variorum.family.transformer import TRANSFORMER, alone
from variorum.spec.architecture import At, Init, pre
from variorum.spec.attention import ALL_PROJECTIONS, Attention
from variorum.spec.feedforward import MLP, Experts, GatedMLP, SoftmaxRouter
from variorum.spec.heads import SequenceHead, TokenHead, VocabularyHead
from variorum.spec.inputs import TokenInput
from variorum.spec.model import BUDGET, COMPRESSION, MECHANISM, OBJECTIVE, POSITIONS, TOKENIZER, TRAINING, Change, Size
from variorum.spec.norms import LayerNorm, RMSNorm
from variorum.spec.positions import Learned, Llama3Scaling, Rotary
from variorum.spec.recipe import Objective, Recipe, Tokenizer

STACK, HEADS = "architecture.decoder", "architecture.heads"
TABLE = "decoder.input.table"
NORM = LayerNorm(eps=1e-5)
RMS = RMSNorm(eps=1e-6)
#: What a published size sets.
shape = functools.partial(alone, "decoder")

GPT1 = TRANSFORMER.variant(
    "gpt-1",
    cite="Radford et al. 2018",
    changes=[
        Change("architecture.encoder", None, MECHANISM, "text continues text: nothing is read before it",
               relieves="task-alignment", also={f"{STACK}.block.cross": None}),
        Change("objective", Objective(kind="causal_lm"), OBJECTIVE, "any text teaches; tasks are learned after it",
               relieves="data-efficiency",
               also={HEADS: {"causal_lm": VocabularyHead(tie=TABLE),
                             "sequence_classification": SequenceHead(take="last", bias=False, dropout=0.0),
                             "multiple_choice": SequenceHead(take="last", labels=1)}}),
        Change(f"{STACK}.input", TokenInput(vocab=40_478, positions=Learned(rows=512), pad_id=None, dropout=0.1),
               POSITIONS, "learned as well as computed"),
        Change(f"{STACK}.block.attention",
               Attention(heads=12, kv_heads=12, head_dim=64, bias=ALL_PROJECTIONS, dropout=0.1), BUDGET,
               "117 million parameters", also={"architecture.width": 768, f"{STACK}.depth": 12}),
        Change(f"{STACK}.block.feedforward", MLP(width=3072, activation="gelu_tanh"), MECHANISM, "smoother than ReLU"),
        Change(f"{STACK}.block.layout.norm", NORM, TRAINING, "released code"),
        Change("architecture.init", Init(), TRAINING, "normal(0, 0.02) suffices under layer norm"),
        Change("tokenizer", Tokenizer(kind="bpe", cased=False), TOKENIZER, "40,000 merges of lower-cased words"),
        Change("recipe", Recipe(batch=64, length=512, learning_rate=2.5e-4, warmup=2000, weight_decay=0.01,
                                schedule="cosine"), TRAINING, "100 passes over 7,000 books"),
    ],
    weaknesses=("training-stability", "length-extrapolation", "kv-memory", "quadratic-attention"),
    sizes={"openai-gpt": Size(shape(768, 12, 12, 3072, vocab=40_478), "openai-community/openai-gpt", 117e6)},
)  # fmt: skip
GPT1 = dataclasses.replace(GPT1, repo="openai-community/openai-gpt", published=117e6)

GPT2 = GPT1.variant(
    "gpt2",
    cite="Radford et al. 2019",
    changes=[
        Change(f"{STACK}.block.layout", pre(NORM), MECHANISM, "an open residual path trains deeper stacks",
               relieves="training-stability", also={f"{STACK}.final_norm": NORM}),
        Change("architecture.init", Init(residual="depth"), TRAINING, "the residual sum stays as large at any depth",
               relieves="training-stability"),
        Change("tokenizer", Tokenizer(kind="byte-bpe"), TOKENIZER, "any string, case and all, without unknown tokens",
               also={f"{STACK}.input.vocab": 50_257}),
        Change(f"{STACK}.input.positions.rows", 1024, POSITIONS, "twice the context"),
        Change(f"{HEADS}.token_classification", TokenHead(), OBJECTIVE, "fine-tuning heads of the released classes",
               also={f"{HEADS}.question_answering": TokenHead(dropout=0.0)}),
        Change("recipe", Recipe(batch=512, length=1024, learning_rate=2.5e-4, warmup=2000, weight_decay=0.01,
                                schedule="cosine", format="stream"), TRAINING, "eight million web pages"),
    ],
    weaknesses=("length-extrapolation", "kv-memory", "quadratic-attention"),
    sizes={
        "gpt2-small": Size(shape(768, 12, 12, 3072, vocab=50_257), "openai-community/gpt2", 124e6),
        "gpt2-medium": Size(shape(1024, 24, 16, 4096, vocab=50_257), "openai-community/gpt2-medium", 355e6),
        "gpt2-large": Size(shape(1280, 36, 20, 5120, vocab=50_257), "openai-community/gpt2-large", 774e6),
        "gpt2-xl": Size(shape(1600, 48, 25, 6400, vocab=50_257), "openai-community/gpt2-xl", 1.5e9),
    },
)  # fmt: skip
GPT2 = dataclasses.replace(GPT2, repo="openai-community/gpt2", published=124e6)

_BAND = "the paper names neither the bandwidth nor the layers: 128 is the stride of the Sparse Transformer for text"
_XL = "the table prints 24 heads of 128, whose 1.52 billion are not the 1.3 that it prints beside them; 16 heads are"
_13B = "the table prints this width, which 40 heads of 128 do not fill; 5120 would be filled"
_CLOSED = "its weights were never released"


def _gpt3(
    published: float, width: int, depth: int, heads: int, head_dim: int, uncertain: dict[str, str] | None = None
) -> Size:
    values = shape(width, depth, heads, 4 * width, vocab=50_257, head_dim=head_dim)
    return Size(values, published=published, note=_CLOSED, uncertain=uncertain or {})


GPT3 = GPT2.variant(
    "gpt-3",
    cite="Brown et al. 2020, arXiv:2005.14165",
    changes=[
        Change(f"{STACK}.pattern", (At(layers="1::2", set={"attention.window": 128}),), MECHANISM,
               "every second layer sees a band", relieves="quadratic-attention"),
        Change(f"{STACK}.input.positions.rows", 2048, POSITIONS, "twice the context again",
               also={"recipe.length": 2048}),
        Change("recipe.tokens", 300e9, TRAINING, "tasks are learned from the prompt", relieves="task-alignment"),
    ],
    weaknesses=("length-extrapolation", "kv-memory"),
    uncertain={f"{STACK}.pattern": _BAND},
    sizes={
        "gpt3-small": _gpt3(125e6, 768, 12, 12, 64),
        "gpt3-medium": _gpt3(350e6, 1024, 24, 16, 64),
        "gpt3-large": _gpt3(760e6, 1536, 24, 16, 96),
        "gpt3-xl": _gpt3(1.3e9, 2048, 24, 16, 128, {f"{STACK}.block.attention.heads": _XL}),
        "gpt3-2.7b": _gpt3(2.7e9, 2560, 32, 32, 80),
        "gpt3-6.7b": _gpt3(6.7e9, 4096, 32, 32, 128),
        "gpt3-13b": _gpt3(13e9, 5140, 40, 40, 128, {"architecture.width": _13B}),
        "gpt3-175b": _gpt3(175e9, 12_288, 96, 96, 128),
    },
)  # fmt: skip

#: LLaMA's paper is silent on initial values; this is what its laboratory's later training code offers
#: (facebookresearch/lingua, `InitStdFactor.GLOBAL_DEPTH`): 1/√fan-in, less by depth for what feeds the residual stream.
_FAN_IN = Init(std=None, residual="depth")
LLAMA = GPT2.variant(
    "llama",
    cite="Touvron et al. 2023, arXiv:2302.13971",
    changes=[
        Change(f"{STACK}.positions", Rotary(), POSITIONS, "scores depend on distance alone",
               relieves="length-extrapolation", also={f"{STACK}.input.positions": None}),
        Change(f"{STACK}.block.layout.norm", RMS, MECHANISM, "as good as LayerNorm, with less to compute",
               relieves="latency", also={f"{STACK}.final_norm": RMS}),
        Change(f"{STACK}.block.feedforward", GatedMLP(width=2048, activation="silu"), MECHANISM,
               "SwiGLU learns more per parameter", relieves="data-efficiency",
               also={"architecture.init": _FAN_IN}),
        Change(f"{STACK}.block.attention.bias", (), MECHANISM, "biases buy nothing at scale"),
        Change(f"{HEADS}.multiple_choice", None, OBJECTIVE, "a model that writes its choice needs no head for it"),
        Change("architecture.heads.causal_lm.tie", None, MECHANISM, "large tables need not be shared"),
        Change(f"{STACK}.block.dropout", 0.0, TRAINING, "each text is seen once",
               also={f"{STACK}.input.dropout": 0.0, f"{STACK}.block.attention.dropout": 0.0}),
        Change("tokenizer", Tokenizer(kind="bpe"), TOKENIZER, "SentencePiece with byte fallback",
               also={f"{STACK}.input.vocab": 32_000}),
        Change("recipe", Recipe(length=2048, learning_rate=3e-4, warmup=2000, weight_decay=0.1, schedule="cosine",
                                tokens=1e12, betas=(0.9, 0.95), clip=1.0, floor=0.1, format="stream"),
               TRAINING, "smaller models, many more tokens",
               relieves="under-training"),
    ],
    weaknesses=("kv-memory", "quadratic-attention"),
    sizes={
        "llama-7b": Size(shape(4096, 32, 32, 11_008, vocab=32_000), "huggyllama/llama-7b", 6.7e9),
        "llama-13b": Size(shape(5120, 40, 40, 13_824, vocab=32_000), "huggyllama/llama-13b", 13e9),
        "llama-30b": Size(shape(6656, 60, 52, 17_920, vocab=32_000), "huggyllama/llama-30b", 32.5e9),
        "llama-65b": Size(shape(8192, 80, 64, 22_016, vocab=32_000), "huggyllama/llama-65b", 65.2e9),
        "alpaca": Size(shape(4096, 32, 32, 11_008, vocab=32_001), published=6.7e9,
                       note="released as a difference from LLaMA's weights"),
        "vicuna": Size(shape(4096, 32, 32, 11_008, vocab=32_000), "lmsys/vicuna-7b-v1.3", 6.7e9),
        "vicuna-13b": Size(shape(5120, 40, 40, 13_824, vocab=32_000), "lmsys/vicuna-13b-v1.3", 13e9),
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
        **{name: Size(shape(16_384, 126, 128, 53_248, vocab=128_256, kv_heads=8), "meta-llama/Llama-3.1-405B", 405e9)
           for name in ("llama-3.1-405b", "llama-3-405b")},
    },
)  # fmt: skip

SMOLLM2 = LLAMA2.variant(
    "smollm2",
    cite="Ben Allal et al. 2025, arXiv:2502.02737",
    changes=[
        Change(f"{STACK}.block.attention.kv_heads", 4, MECHANISM, "query heads share keys and values",
               relieves="kv-memory"),
        Change(f"{HEADS}.causal_lm.tie", TABLE, COMPRESSION, "its table would be a fifth of it, twice",
               relieves="parameter-bloat"),
        Change(f"{STACK}.positions.theta", 100_000.0, POSITIONS, "slower rotation for 8k tokens",
               also={"recipe.length": 8192}),
        Change("tokenizer", Tokenizer(kind="byte-bpe"), TOKENIZER, "49k tokens",
               also={f"{STACK}.input.vocab": 49_152}),
    ],
    weaknesses=("quadratic-attention",),
    sizes={"smollm2-135m": Size(shape(576, 30, 9, 1536, vocab=49_152, kv_heads=3), "HuggingFaceTB/SmolLM2-135M",
                                135e6)},
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
MODELS = (GPT1, GPT2, GPT3, LLAMA, LLAMA2, LLAMA3, LLAMA31, SMOLLM2, MISTRAL, MIXTRAL)
