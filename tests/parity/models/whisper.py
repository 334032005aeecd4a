"""The tiny oracle models of Whisper: eleven vectors of sound are 22 frames."""

from __future__ import annotations

from tests.parity.case import Tiny

WHISPER = {
    "d_model": 48,
    "encoder_layers": 4,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 53,
    "decoder_ffn_dim": 37,
    "num_mel_bins": 6,
    "max_source_positions": 11,
    "max_target_positions": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}

TINY = (
    Tiny(
        name="whisper",
        system="whisper",
        oracle="Whisper",
        heads=("seq2seq_lm", None),
        config=WHISPER,
        mels=(6, 22),
        vectors=11,
        start=3,
        columns=True,
    ),
    Tiny(
        name="whisper-relu",
        system="whisper",
        oracle="Whisper",
        heads=("seq2seq_lm",),
        config={**WHISPER, "activation_function": "relu"},
        mels=(6, 22),
        vectors=11,
        start=3,
        columns=True,
    ),
)
