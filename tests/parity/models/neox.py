"""The tiny oracle models of GPT-NeoX and Pythia."""

from __future__ import annotations

from tests.parity.case import TASKS, Tiny

NEOX = {
    "hidden_size": 48,
    "intermediate_size": 53,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "max_position_embeddings": 64,
    "hidden_act": "gelu_fast",
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

TINY = (
    Tiny(
        name="gpt-neox",
        system="gpt-neox",
        oracle="GPTNeoX",
        heads=("causal_lm", *TASKS),
        config=NEOX,
        pools="last real",
    ),
    Tiny(
        name="gpt-neox-serial",
        system="gpt-neox",
        oracle="GPTNeoX",
        heads=("causal_lm",),
        config={
            **NEOX,
            "hidden_act": "gelu",
            "use_parallel_residual": False,
            "attention_bias": False,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 20_000.0, "partial_rotary_factor": 0.5},
        },
    ),
)
