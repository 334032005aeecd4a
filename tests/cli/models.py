"""Tiny checkpoints with tokenizers, for the commands that need weights: made from a seed, saved as published."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from variorum.builder import build
from variorum.checkpoint import save
from variorum.family import find
from variorum.model import Model
from variorum.text import Tokenizer, train_byte_level_bpe, train_wordpiece_by_frequency
from variorum.text.corpora import austen
from variorum.text.readers import paragraphs

TEXT = "The Law will never be perfect, but its application should be just."
SHORT = "its Law"
GPT2 = {
    "architecture.width": 32,
    "architecture.decoder.depth": 3,
    "architecture.decoder.input.positions.rows": 48,
    "architecture.decoder.block.attention.heads": 4,
    "architecture.decoder.block.attention.kv_heads": 4,
    "architecture.decoder.block.attention.head_dim": 8,
    "architecture.decoder.block.feedforward.width": 40,
}
LLAMA = {
    **{path: value for path, value in GPT2.items() if "positions" not in path},
    "architecture.decoder.block.attention.kv_heads": 2,
}
BERT = {
    "architecture.width": 32,
    "architecture.encoder.depth": 3,
    "architecture.encoder.input.positions.rows": 48,
    "architecture.encoder.block.attention.heads": 4,
    "architecture.encoder.block.attention.kv_heads": 4,
    "architecture.encoder.block.attention.head_dim": 8,
    "architecture.encoder.block.feedforward.width": 40,
}
DEBERTA = {path: value for path, value in BERT.items() if not path.endswith("rows")}
T5 = {
    "architecture.width": 32,
    "architecture.encoder.depth": 2,
    "architecture.decoder.depth": 3,
    **{
        f"architecture.{attention}.{field}": value
        for attention in ("encoder.block.attention", "decoder.block.attention", "decoder.block.cross")
        for field, value in (("heads", 4), ("kv_heads", 4), ("head_dim", 8))
    },
    "architecture.encoder.block.feedforward.width": 40,
    "architecture.decoder.block.feedforward.width": 40,
}


@functools.cache
def words() -> Tokenizer:
    """A lower-casing WordPiece of the first chapters of Emma."""
    return train_wordpiece_by_frequency([TEXT, *_emma()], 400)


@functools.cache
def pieces() -> Tokenizer:
    """A byte-level BPE of the same."""
    return train_byte_level_bpe([TEXT, *_emma()], 400, ["<|endoftext|>"])


def _emma() -> Sequence[str]:
    return paragraphs(austen()["Emma"])[:60]


def made(place: Path, name: str, sizes: Mapping[str, object], head: str | None, tokenizer: Tokenizer) -> Path:
    """A checkpoint of the spec ``name`` at these sizes, every parameter of it random enough to show."""
    vocab = {
        f"architecture.{stack}.input.vocab": tokenizer.vocab_size
        for stack in ("encoder", "decoder")
        if getattr(find(name).architecture, stack) is not None
    }
    model = build(find(name).set({**sizes, **vocab}), head=head)
    shaken(model)
    model.tokenizer = tokenizer
    save(model, place)
    return place


def shaken(model: Model) -> None:
    """Norms and biases away from 1 and 0, tables far apart: attention that is far from uniform."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, value in model.named_tensors():
            noise = torch.randn(value.shape, generator=generator)
            if value.dim() < 2:
                value.add_(0.2 * noise)
            elif isinstance(model.get_submodule(name.rpartition(".")[0]), nn.Embedding):
                value.copy_(0.7 * noise)
            else:
                value.copy_(1.5 * noise / value.shape[-1] ** 0.5)


def bert(place: Path) -> Path:
    return made(place, "bert", BERT, "masked_lm", words())


def gpt2(place: Path) -> Path:
    return made(place, "gpt2", GPT2, "causal_lm", pieces())


def llama(place: Path) -> Path:
    return made(place, "llama", LLAMA, "causal_lm", pieces())


def deberta(place: Path) -> Path:
    return made(place, "deberta-v3", DEBERTA, "masked_lm", words())


def t5(place: Path) -> Path:
    return made(place, "t5", T5, "seq2seq_lm", pieces())


def mixtral(place: Path) -> Path:
    experts = {"architecture.decoder.block.feedforward.count": 6, "architecture.decoder.block.feedforward.active": 2}
    return made(place, "mixtral", LLAMA | experts, "causal_lm", pieces())
