"""DeepSeek-V3: LLaMA with latent attention and many small experts."""

from __future__ import annotations

import dataclasses

from variorum.family.gpt import LLAMA, STACK
from variorum.spec.architecture import At
from variorum.spec.attention import LatentAttention
from variorum.spec.feedforward import Experts, GatedMLP, SigmoidRouter
from variorum.spec.model import BUDGET, MECHANISM, POSITIONS, TOKENIZER, Change
from variorum.spec.norms import RMSNorm
from variorum.spec.positions import Rotary, YarnScaling
from variorum.spec.recipe import Tokenizer

RMS = RMSNorm(eps=1e-6)
#: 0.1·ln(40) + 1 is mscale(40); the released code folds its square into the attention scale.
_MSCALE = 1.3688879454113936
_LATENT = LatentAttention(
    heads=128, query_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128, norm=RMS,
    scale=192**-0.5 * _MSCALE**2,
)  # fmt: skip
_EXPERTS = Experts(
    count=256, active=8, width=2048, activation="silu", shared_width=2048,
    router=SigmoidRouter(groups=8, active_groups=4, scale=2.5),
)  # fmt: skip

DEEPSEEK_V3 = LLAMA.variant(
    "deepseek-v3",
    cite="DeepSeek-AI 2024, arXiv:2412.19437",
    changes=[
        Change(f"{STACK}.block.attention", _LATENT, axis=MECHANISM, why="one small latent per token is all it caches",
               relieves="kv-memory"),
        Change(f"{STACK}.block.feedforward", _EXPERTS, axis=MECHANISM, why="eight of 256 experts and one shared",
               relieves="latency",
               also={f"{STACK}.pattern":
                     (At(layers=":3", set={"feedforward": GatedMLP(width=18_432, activation="silu")}),)}),
        Change(f"{STACK}.positions",
               Rotary(interleaved=True, scaling=YarnScaling(factor=40.0, original_length=4096, attention_factor=1.0)),
               axis=POSITIONS, why="160k context", relieves="length-extrapolation"),
        Change("architecture.width", 7168, axis=BUDGET, why="671 billion parameters, 37 active",
               also={f"{STACK}.depth": 61}),
        Change("tokenizer", Tokenizer(kind="byte-bpe"), axis=TOKENIZER, why="129k tokens",
               also={f"{STACK}.input.vocab": 129_280}),
    ],
)  # fmt: skip
DEEPSEEK_V3 = dataclasses.replace(DEEPSEEK_V3, repo="deepseek-ai/DeepSeek-V3", published=671e9)
MODELS = (DEEPSEEK_V3,)
