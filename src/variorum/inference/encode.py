"""What a model takes of what its tokenizer gives: the inputs of a forward, and how long they may be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from variorum.errors import UsageError
from variorum.model import Model
from variorum.spec.positions import Learned

SPARE = "(spare row)"  # many tables have more rows than their tokenizer has tokens


def longest_input(model: Model) -> int | None:
    """The most tokens the model takes, or ``None`` where nothing limits it."""
    arch = model.spec.architecture
    positions = (arch.main.input if arch.stacks else arch.source).positions
    return positions.rows - positions.offset if isinstance(positions, Learned) else None


def tokenizer_of(model: Model) -> Any:
    """The model's tokenizer.

    Raises:
        UsageError: it has none.
    """
    if model.tokenizer is None:
        raise UsageError(f"{model.spec.name} has no tokenizer", remedy="load it from a directory with tokenizer files")
    return model.tokenizer


def reads_segments(model: Model) -> bool:
    """Whether it makes a difference which segment a token is in."""
    encoder = model.spec.architecture.encoder
    return encoder is not None and (encoder.tokens.segments > 1 or bool(getattr(encoder.positions, "segments", False)))


def tensors(model: Model, batch: Any) -> dict[str, Tensor]:
    """A tokenizer's batch as the inputs this model takes."""
    device = next(model.parameters()).device
    encoder = model.spec.architecture.encoder
    given = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    if reads_segments(model):
        given["token_type_ids"] = batch.token_type_ids
    found = {name: torch.as_tensor(value, device=device).long() for name, value in given.items()}
    if encoder is not None and model.is_decoder:
        # Reading needs one step of the decoder; what it writes is not looked at.
        start = model.spec.architecture.main.tokens.start_id
        first = start if isinstance(start, int) else 0
        found["decoder_input_ids"] = torch.full((len(batch.input_ids), 1), first, device=device)
    return found
