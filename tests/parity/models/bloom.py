"""The tiny oracle models of BLOOM and MPT. Six heads: their slopes are not those of one power of two."""

from __future__ import annotations

from tests.parity.case import TASKS, Tiny

BLOOM = {
    "hidden_size": 48,
    "n_layer": 3,
    "n_head": 6,
    "pad_token_id": 3,
}
MPT = {
    "d_model": 48,
    "n_layers": 3,
    "n_heads": 6,
    "max_seq_len": 64,
    "pad_token_id": 0,
}

TINY = (
    Tiny(
        name="bloom",
        system="bloom",
        oracle="Bloom",
        heads=("causal_lm", *TASKS),
        config=BLOOM,
        pools="last real",
    ),
    Tiny(
        name="bloom-normed",
        system="bloom",
        oracle="Bloom",
        heads=("causal_lm",),
        config={**BLOOM, "n_head": 4, "apply_residual_connection_post_layernorm": True},
    ),
    Tiny(
        name="mpt",
        system="mpt",
        oracle="Mpt",
        heads=("causal_lm", *TASKS),
        config=MPT,
        pools="last real",
    ),
    Tiny(
        name="mpt-clipped",
        system="mpt",
        oracle="Mpt",
        heads=("causal_lm",),
        config={**MPT, "attn_config": {"clip_qkv": 0.8, "softmax_scale": 0.2}},
    ),
)
