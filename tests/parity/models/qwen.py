"""The tiny oracle models of Qwen."""

from __future__ import annotations

from tests.parity.case import TASKS, Tiny
from tests.parity.models.llama import LLAMA

EXPERTS = {
    "num_hidden_layers": 4,
    "moe_intermediate_size": 21,
    "num_experts": 8,
    "num_experts_per_tok": 3,
}

TINY = (
    Tiny(
        name="qwen2",
        system="qwen2",
        oracle="Qwen2",
        heads=("causal_lm", *TASKS),
        # A window is stated, and not in use.
        config={**LLAMA, "sliding_window": 5},
        pools="last real",
    ),
    Tiny(
        name="qwen2-windowed",
        system="qwen2",
        oracle="Qwen2",
        heads=("causal_lm",),
        config={**LLAMA, "sliding_window": 5, "use_sliding_window": True, "max_window_layers": 2},
    ),
    Tiny(
        name="qwen3",
        system="qwen3",
        oracle="Qwen3",
        heads=("causal_lm", *TASKS),
        config={**LLAMA, "head_dim": 10, "rms_norm_eps": 1e-5, "attention_bias": True, "tie_word_embeddings": True},
        pools="last real",
    ),
    Tiny(
        name="qwen2-moe",
        system="qwen2-moe",
        oracle="Qwen2Moe",
        heads=("causal_lm", *TASKS),
        config={
            **LLAMA, **EXPERTS, "shared_expert_intermediate_size": 23, "mlp_only_layers": [1],
            "sliding_window": 5, "use_sliding_window": True, "max_window_layers": 3,
        },
        pools="last real",
    ),
    Tiny(
        name="qwen3-moe",
        system="qwen3-moe",
        oracle="Qwen3Moe",
        heads=("causal_lm", *TASKS),
        config={
            **LLAMA, **EXPERTS, "head_dim": 10, "norm_topk_prob": True, "decoder_sparse_step": 2,
            "sliding_window": 5, "use_sliding_window": True,
        },
        pools="last real",
    ),
)  # fmt: skip
