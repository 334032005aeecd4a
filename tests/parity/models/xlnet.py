"""The tiny oracle models of XLNet."""

from __future__ import annotations

from tests.parity.case import TASKS, Tiny

XLNET = {
    "d_model": 48,
    "n_layer": 4,
    "n_head": 4,
    "d_inner": 53,
    "mem_len": 9,
    "start_n_top": 3,
    "end_n_top": 2,
    "pad_token_id": 5,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

TINY = (
    Tiny(
        name="xlnet",
        system="xlnet",
        oracle="XLNet",
        heads=("permutation_lm", None, *TASKS, "multiple_choice", "answer_span"),
        config=XLNET,
        classes={"question_answering": "XLNetForQuestionAnsweringSimple"},
        segments=3,
        pools="last",
        extra={"permutation_lm": ("memory", "two_stream")},
    ),
    Tiny(
        name="xlnet-clamped",
        system="xlnet",
        oracle="XLNet",
        heads=("permutation_lm",),
        config={**XLNET, "clamp_len": 6},
        segments=3,
        extra={"permutation_lm": ("memory",)},
    ),
)
