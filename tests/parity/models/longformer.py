"""The tiny oracle models of Longformer."""

from __future__ import annotations

from tests.parity.case import TASKS, Tiny

LONGFORMER = {
    "hidden_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 53,
    "max_position_embeddings": 40,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "sep_token_id": 2,
}

TINY = (
    Tiny(
        name="longformer",
        system="longformer",
        oracle="Longformer",
        heads=("masked_lm", None, *TASKS, "multiple_choice"),
        config={**LONGFORMER, "attention_window": [4, 8, 4, 8]},
        given_positions=False,
        everywhere=8,
    ),
    Tiny(
        name="longformer-one-window",
        system="longformer",
        oracle="Longformer",
        heads=("token_classification",),
        config={**LONGFORMER, "attention_window": 6, "type_vocab_size": 2},
        segments=2,
        given_positions=False,
        everywhere=11,
    ),
)
