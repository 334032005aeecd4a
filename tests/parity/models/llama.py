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
        heads=("causal_lm", "sequence_classification"),
        config={**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2},
        pools="last real",
    ),
)
