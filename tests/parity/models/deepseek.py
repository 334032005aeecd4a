"""The tiny oracle models of DeepSeek."""

from __future__ import annotations

from tests.parity.case import Tiny

DEEPSEEK = {
    "hidden_size": 40,
    "intermediate_size": 53,
    "moe_intermediate_size": 21,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 18,
    "kv_lora_rank": 14,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 8,
    "v_head_dim": 11,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 3,
    "n_group": 4,
    "topk_group": 2,
    "first_k_dense_replace": 1,
    "num_mtp_layers": 0,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
#: Four pairs of channels, one of them on the ramp, where rounding its ends moves them.
YARN = {
    "rope_type": "yarn",
    "rope_theta": 100.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 3.0,
    "beta_slow": 0.6,
    "mscale": 1.0,
    "mscale_all_dim": 0.7,
}

TINY = (
    Tiny(
        name="deepseek-v3",
        system="deepseek-v3",
        oracle="DeepseekV3",
        heads=("causal_lm", "sequence_classification", "token_classification"),
        config=DEEPSEEK,
        pools="last real",
    ),
    Tiny(
        name="deepseek-v3-yarn",
        system="deepseek-v3",
        oracle="DeepseekV3",
        heads=("causal_lm",),
        config={**DEEPSEEK, "q_lora_rank": None, "norm_topk_prob": False, "rope_parameters": YARN},
    ),
)
