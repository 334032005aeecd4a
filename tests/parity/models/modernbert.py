"""The tiny oracle models of ModernBERT."""

from __future__ import annotations

from tests.parity.case import TASKS, Tiny

MODERNBERT = {
    "hidden_size": 48,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
    "local_attention": 8,
    "global_rope_theta": 160_000.0,
    "local_rope_theta": 10_000.0,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "cls_token_id": 1,
    "eos_token_id": 2,
    "sep_token_id": 2,
}

TINY = (
    Tiny(
        name="modernbert",
        system="modernbert",
        oracle="ModernBert",
        heads=(None, "masked_lm", *TASKS, "multiple_choice"),
        finds_first=("multiple_choice",),
        config=MODERNBERT,
    ),
    Tiny(
        name="modernbert-mean",
        system="modernbert",
        oracle="ModernBert",
        heads=("sequence_classification",),
        config={**MODERNBERT, "classifier_pooling": "mean"},
        pools="mean",
    ),
)
