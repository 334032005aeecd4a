"""The tiny oracle models of Gemma."""

from __future__ import annotations

from tests.parity.case import Tiny
from tests.parity.models.llama import LLAMA

GEMMA3 = {
    **LLAMA,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "head_dim": 10,
    "query_pre_attn_scalar": 7,
    "sliding_window": 5,
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "rope_theta": 1_000_000.0, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    },
}

GEMMA2 = {
    **LLAMA,
    "num_attention_heads": 4,
    "head_dim": 10,
    "query_pre_attn_scalar": 7,
    "sliding_window": 5,
    # Low enough to bend the scores of a tiny model.
    "attn_logit_softcapping": 3.0,
    "final_logit_softcapping": 2.0,
}

TINY = (
    Tiny(
        name="gemma",
        system="gemma",
        oracle="Gemma",
        heads=("causal_lm", "sequence_classification", "token_classification"),
        config={**LLAMA, "num_key_value_heads": 1, "head_dim": 10},
        pools="last real",
    ),
    Tiny(
        name="gemma2",
        system="gemma-2",
        oracle="Gemma2",
        heads=("causal_lm", "sequence_classification", "token_classification"),
        config=GEMMA2,
        pools="last real",
    ),
    Tiny(
        name="gemma3",
        system="gemma-3",
        oracle="Gemma3",
        heads=("causal_lm", "sequence_classification"),
        config=GEMMA3,
        classes={"sequence_classification": "Gemma3TextForSequenceClassification"},
        pools="last real",
    ),
)
