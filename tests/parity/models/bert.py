"""The tiny oracle models of BERT and the encoders that keep its block."""

from __future__ import annotations

from tests.parity.case import TASKS, Tiny

BERT = {
    "hidden_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 53,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
    "pad_token_id": 0,
}

TINY = (
    Tiny(
        name="bert",
        system="bert",
        oracle="Bert",
        heads=(None, "masked_lm+next_sentence", "masked_lm", "next_sentence", *TASKS, "multiple_choice"),
        config=BERT,
        segments=2,
    ),
    Tiny(
        name="roberta",
        system="roberta",
        oracle="Roberta",
        heads=(None, "masked_lm", *TASKS, "multiple_choice"),
        config={**BERT, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
        given_positions=False,
    ),
    Tiny(
        name="xlm-roberta",
        system="xlm-roberta",
        oracle="XLMRoberta",
        heads=(None, "masked_lm", *TASKS, "multiple_choice"),
        config={**BERT, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
        given_positions=False,
    ),
    Tiny(
        name="albert",
        system="albert",
        oracle="Albert",
        heads=(None, "masked_lm+next_sentence", "masked_lm", *TASKS, "multiple_choice"),
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
        heads=(None, "masked_lm", *TASKS, "multiple_choice"),
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
        heads=(None, "replaced_token", "masked_lm", *TASKS, "multiple_choice"),
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
)
