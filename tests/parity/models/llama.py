"""The tiny oracle models of LLaMA and what keeps its names."""

from __future__ import annotations

from tests.parity.case import TASKS, Tiny

LLAMA = {
    "hidden_size": 48,
    "intermediate_size": 53,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
#: A ramp over four pairs of channels, whose ends are not rounded; the factor on cos and sin is stated.
YARN = {
    "rope_type": "yarn",
    "rope_theta": 100.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 3.0,
    "beta_slow": 0.6,
    "attention_factor": 1.3,
    "truncate": False,
}

TINY = (
    Tiny(
        name="llama",
        system="llama",
        oracle="Llama",
        heads=("causal_lm", *TASKS),
        config=LLAMA,
        pools="last real",
    ),
    Tiny(
        name="llama-3.1",
        system="llama-3.1",
        oracle="Llama",
        heads=("causal_lm",),
        config={
            **LLAMA,
            "head_dim": 10,
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500_000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        },
    ),
    Tiny(
        name="llama-yarn",
        system="llama",
        oracle="Llama",
        heads=("causal_lm",),
        config={**LLAMA, "attention_bias": True, "mlp_bias": True, "rope_parameters": YARN},
    ),
    Tiny(
        name="llama-linear",
        system="llama",
        oracle="Llama",
        heads=("causal_lm",),
        config={**LLAMA, "rope_parameters": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 3.0}},
    ),
    Tiny(
        name="llama-dynamic",
        system="llama",
        oracle="Llama",
        heads=("token_classification",),
        # The longest text alone is longer than this.
        config={
            **LLAMA,
            "max_position_embeddings": 20,
            "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0},
        },
        one_length=True,
    ),
    Tiny(
        name="mistral",
        system="mistral",
        oracle="Mistral",
        heads=("causal_lm", *TASKS),
        config={**LLAMA, "sliding_window": 5},
        pools="last real",
    ),
    Tiny(
        name="mixtral",
        system="mixtral",
        oracle="Mixtral",
        heads=("causal_lm", *TASKS),
        config={**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2},
        pools="last real",
    ),
)
