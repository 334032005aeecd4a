"""The tiny oracle models of BART, mBART and PEGASUS."""

from __future__ import annotations

from tests.parity.case import Tiny

BART = {
    "d_model": 48,
    "encoder_layers": 4,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 53,
    "decoder_ffn_dim": 61,
    "max_position_embeddings": 40,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
HEADS = ("seq2seq_lm", None, "sequence_classification", "question_answering")

TINY = (
    Tiny(
        name="bart", system="bart", oracle="Bart", heads=HEADS, config=BART, start=2, trail=2, pools="eos", columns=True
    ),
    Tiny(
        name="bart-scaled",
        system="bart",
        oracle="Bart",
        heads=("seq2seq_lm",),
        config={**BART, "scale_embedding": True, "activation_function": "relu"},
        start=2,
        columns=True,
    ),
    Tiny(
        name="mbart",
        system="mbart",
        oracle="MBart",
        heads=HEADS,
        config={**BART, "scale_embedding": True, "decoder_start_token_id": None},
        start="last",
        trail=1,
        pools="eos",
        columns=True,
    ),
    Tiny(
        name="pegasus",
        system="pegasus",
        oracle="Pegasus",
        heads=("seq2seq_lm", None),
        config={
            **BART,
            "scale_embedding": True,
            "activation_function": "relu",
            "pad_token_id": 0,
            "eos_token_id": 1,
            "decoder_start_token_id": 0,
        },
        start=0,
        columns=True,
    ),
)
