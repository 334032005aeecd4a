"""The tiny oracle models: one entry per model, each with the heads its family publishes.

Sizes are small and odd (widths of 40 and 48, 97 words, feed-forwards of 53), but depth, windows, bucket limits and
head layouts are such that every mechanism shows on the probes. Adding a model to parity, round trip and mutation
is one entry in `TINY`.
"""

from __future__ import annotations

from tests.parity.case import Case, Tiny

TASKS = ("sequence_classification", "token_classification", "question_answering")

BERT = {
    "hidden_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 53,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
    "pad_token_id": 0,
}
DEBERTA = {
    **BERT,
    "type_vocab_size": 0,
    "relative_attention": True,
    "max_relative_positions": -1,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
    "pooler_hidden_size": 48,
    "max_position_embeddings": 40,
}
#: 6 buckets on each side, logarithmic from distance 3 on: the longest probe spans 28.
DEBERTA_V2 = {
    **DEBERTA,
    "position_buckets": 6,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
}
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
T5 = {
    "d_model": 40,
    "d_kv": 12,
    "d_ff": 53,
    "num_layers": 4,
    "num_decoder_layers": 3,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
GATED_T5 = {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
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

TINY: tuple[Tiny, ...] = (
    Tiny(
        name="bert",
        system="bert",
        oracle="Bert",
        heads=(None, "masked_lm+next_sentence", "masked_lm", "next_sentence", *TASKS),
        config=BERT,
        segments=2,
    ),
    Tiny(
        name="roberta",
        system="roberta",
        oracle="Roberta",
        heads=("masked_lm", *TASKS),
        config={**BERT, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
        given_positions=False,
    ),
    Tiny(
        name="albert",
        system="albert",
        oracle="Albert",
        heads=("masked_lm+next_sentence", "masked_lm", *TASKS),
        config={**BERT, "embedding_size": 22},
        segments=2,
    ),
    Tiny(
        name="albert-groups",
        system="albert",
        oracle="Albert",
        heads=("masked_lm",),
        config={**BERT, "embedding_size": 22, "num_hidden_groups": 2, "inner_group_num": 2, "hidden_act": "gelu"},
        segments=2,
    ),
    Tiny(
        name="distilbert",
        system="distilbert",
        oracle="DistilBert",
        heads=("masked_lm", *TASKS),
        config={
            "dim": 48,
            "n_layers": 4,
            "n_heads": 4,
            "hidden_dim": 53,
            "max_position_embeddings": 40,
            "pad_token_id": 0,
        },
    ),
    Tiny(
        name="electra",
        system="electra",
        oracle="Electra",
        heads=("replaced_token", "masked_lm", *TASKS),
        config={**BERT, "embedding_size": 22},
        segments=2,
    ),
    Tiny(
        name="electra-base",
        system="electra",
        oracle="Electra",
        heads=("replaced_token",),
        config={**BERT, "embedding_size": 48},
        segments=2,
    ),
    Tiny(
        name="deberta",
        system="deberta",
        oracle="Deberta",
        heads=("masked_lm", *TASKS),
        config={**DEBERTA, "max_relative_positions": 12},
    ),
    Tiny(
        name="deberta-enhanced",
        system="deberta",
        oracle="Deberta",
        heads=("masked_lm",),
        config={**DEBERTA, "legacy": False, "type_vocab_size": 2, "position_biased_input": True},
        segments=2,
    ),
    Tiny(
        name="deberta-v2",
        system="deberta-v2",
        oracle="DebertaV2",
        heads=("masked_lm", *TASKS),
        config={**DEBERTA_V2, "conv_kernel_size": 3, "conv_act": "gelu"},
    ),
    Tiny(
        name="deberta-v2-own-keys",
        system="deberta-v2",
        oracle="DebertaV2",
        heads=("masked_lm",),
        config={**DEBERTA_V2, "share_att_key": False, "legacy": False},
    ),
    Tiny(
        name="deberta-v3",
        system="deberta-v3",
        oracle="DebertaV2",
        heads=("masked_lm", *TASKS),
        config={**DEBERTA_V2, "legacy": False},
    ),
    Tiny(
        name="modernbert",
        system="modernbert",
        oracle="ModernBert",
        heads=(None, "masked_lm", *TASKS),
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
    Tiny(
        name="xlnet",
        system="xlnet",
        oracle="XLNet",
        heads=("permutation_lm", *TASKS),
        config={
            "d_model": 48,
            "n_layer": 4,
            "n_head": 4,
            "d_inner": 53,
            "mem_len": 9,
            "pad_token_id": 5,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
        classes={"question_answering": "XLNetForQuestionAnsweringSimple"},
        segments=3,
        pools="last",
        extra={"permutation_lm": ("memory", "two_stream")},
    ),
    Tiny(
        name="t5",
        system="t5",
        oracle="T5",
        heads=("seq2seq_lm", None, *TASKS),
        config=T5,
        classes={None: "T5EncoderModel"},
        pools="eos",
    ),
    Tiny(
        name="t5-v1_1",
        system="t5-v1_1",
        oracle="T5",
        heads=("seq2seq_lm",),
        config=GATED_T5,
        untied="lm_head",
    ),
    Tiny(
        name="gpt2",
        system="gpt2",
        oracle="GPT2",
        heads=("causal_lm", *TASKS),
        config={
            "n_embd": 48,
            "n_layer": 4,
            "n_head": 4,
            "n_positions": 40,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
        classes={"causal_lm": "GPT2LMHeadModel"},
        pools="last real",
    ),
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
    Tiny(
        name="gemma3",
        system="gemma-3",
        oracle="Gemma3",
        heads=("causal_lm", "sequence_classification"),
        config=GEMMA3,
        classes={"sequence_classification": "Gemma3TextForSequenceClassification"},
        pools="last real",
    ),
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

CASES: tuple[Case, ...] = tuple(case for tiny in TINY for case in tiny.cases())


def named(name: str) -> Case:
    """The case a table row names."""
    return {case.name: case for case in CASES}[name]
