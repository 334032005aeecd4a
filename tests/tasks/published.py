"""A small BERT as others publish it: made and saved by transformers, with a vocabulary of ours."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers

from variorum.text import Tokenizer


def published(folder: Path, tokenizer: Tokenizer) -> None:
    """Write it; it has no head."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=tokenizer.vocab_size, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save(folder)
