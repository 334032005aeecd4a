"""The tiny oracle models of DeBERTa, v1 to v3."""

from __future__ import annotations

from tests.parity.case import TASKS, Tiny
from tests.parity.models.bert import BERT

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

TINY = (
    Tiny(
        name="deberta",
        system="deberta",
        oracle="Deberta",
        heads=(None, "masked_lm", *TASKS),
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
        heads=(None, "masked_lm", *TASKS, "multiple_choice"),
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
        heads=(None, "masked_lm", *TASKS, "multiple_choice"),
        config={**DEBERTA_V2, "legacy": False},
    ),
)
