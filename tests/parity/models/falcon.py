"""The tiny oracle models of Falcon: its three fused layouts, and one norm or two."""

from __future__ import annotations

from tests.parity.case import TASKS, Tiny

FALCON = {
    "hidden_size": 48,
    "ffn_hidden_size": 53,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}

TINY = (
    Tiny(
        name="falcon",
        system="falcon",
        oracle="Falcon",
        heads=("causal_lm", *TASKS),
        config=FALCON,
        pools="last real",
    ),
    Tiny(
        name="falcon-grouped",
        system="falcon-grouped",
        oracle="Falcon",
        heads=("causal_lm", "sequence_classification"),
        config=GROUPED,
        pools="last real",
    ),
    Tiny(
        name="falcon-grouped-one-norm",
        system="falcon-grouped",
        oracle="Falcon",
        heads=("causal_lm",),
        config={**GROUPED, "num_ln_in_parallel_attn": 1, "bias": True, "tie_word_embeddings": False},
    ),
    Tiny(
        name="falcon-rw",
        system="falcon-rw",
        oracle="Falcon",
        heads=("causal_lm", "sequence_classification"),
        config={**FALCON, "alibi": True, "bias": True, "multi_query": False, "parallel_attn": False},
        backend="sdpa",
        pools="last real",
    ),
)
