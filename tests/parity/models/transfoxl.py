"""The tiny models of Transformer-XL, whose oracle is this suite's own: `transformers` has dropped the class."""

from __future__ import annotations

from tests.parity.case import Tiny

TRANSFO_XL = {
    "cutoffs": [20, 45, 70],
    "d_model": 48,
    "d_embed": 40,
    "n_head": 4,
    "d_head": 10,
    "d_inner": 53,
    "div_val": 2,
    "n_layer": 4,
    "mem_len": 9,
    "clamp_len": 6,
}
CLASSES = {"causal_lm": "TransfoXLLMHeadModel"}

TINY = (
    Tiny(
        name="transfo-xl",
        system="transformer-xl",
        oracle="TransfoXL",
        heads=("causal_lm", None, "sequence_classification"),
        config={**TRANSFO_XL, "same_length": True},
        classes=CLASSES,
        given_positions=False,
        pools="last real",
        extra={"sequence_classification": ()},
    ),
    Tiny(
        name="transfo-xl-own",
        system="transformer-xl",
        oracle="TransfoXL",
        heads=("causal_lm",),
        config={
            **TRANSFO_XL,
            "d_embed": 36,
            "div_val": 3,
            "clamp_len": -1,
            "same_length": False,
            "tie_word_embeddings": False,
        },
        classes=CLASSES,
        given_positions=False,
    ),
)
