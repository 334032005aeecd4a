"""The tiny oracle models of T5 and its descendants."""

from __future__ import annotations

from tests.parity.case import TASKS, Tiny

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
ENCODES = (None, "token_classification")

TINY = (
    Tiny(
        name="t5",
        system="t5",
        oracle="T5",
        heads=("seq2seq_lm", None, *TASKS),
        config=T5,
        classes={None: "T5EncoderModel"},
        start=0,
        encodes=ENCODES,
        trail=2,
        pools="eos",
    ),
    Tiny(
        name="t5-v1_1",
        system="t5-v1_1",
        oracle="T5",
        heads=("seq2seq_lm", None),
        config=GATED_T5,
        untied="lm_head",
        start=0,
    ),
    Tiny(
        name="byt5",
        system="byt5",
        oracle="T5",
        heads=("seq2seq_lm",),
        config={
            **GATED_T5,
            "num_layers": 6,
            "num_decoder_layers": 2,
            "vocab_size": 384,
            "tokenizer_class": "ByT5Tokenizer",
        },
        untied="lm_head",
        start=0,
    ),
    Tiny(
        name="mt5",
        system="mt5",
        oracle="MT5",
        heads=("seq2seq_lm", None, *TASKS),
        config=GATED_T5,
        classes={None: "MT5EncoderModel"},
        untied="lm_head",
        start=0,
        encodes=ENCODES,
        trail=2,
        pools="eos",
    ),
)
