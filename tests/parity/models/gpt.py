"""The tiny oracle models of The GPT line."""

from __future__ import annotations

from tests.parity.case import TASKS, Tiny

GPT1 = {
    "n_embd": 48,
    "n_layer": 4,
    "n_head": 4,
    "n_positions": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

TINY = (
    Tiny(
        name="gpt-1",
        system="gpt-1",
        oracle="OpenAIGPT",
        heads=("causal_lm", "sequence_classification"),
        config=GPT1,
        classes={"causal_lm": "OpenAIGPTLMHeadModel"},
        pools="last real",
    ),
    Tiny(
        name="gpt2",
        system="gpt2",
        oracle="GPT2",
        heads=("causal_lm", *TASKS),
        config=GPT1,
        classes={"causal_lm": "GPT2LMHeadModel"},
        pools="last real",
    ),
)
