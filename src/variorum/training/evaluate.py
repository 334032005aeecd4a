"""Held-out scores per document, the items of a study's statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@contextmanager
def scoring(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the mode is put back, and no random stream moves."""
    import torch

    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():  # not inference_mode: tables cached here are used again in training
            yield
    finally:
        model.train(was_training)


def bits_per_byte(
    model: torch.nn.Module,
    windows: torch.Tensor,
    documents: torch.Tensor,
    token_bytes: torch.Tensor,
    *,
    batch: int = 32,
) -> torch.Tensor:
    """Bits per byte of each document, float64 [documents].

    Every window is scored on its own, so a token sees at most T tokens before it.

    Args:
        windows: int64 [N, T + 1], token ids.
        documents: int64 [N], the document of each window, numbered from 0 without gaps.
        token_bytes: int64 [V], bytes of text behind each token id.
        batch: windows per forward pass.
    """
    import torch

    from variorum.objectives.causal import Causal, next_token_losses

    count = int(documents.max()) + 1
    nats = torch.zeros(count, dtype=torch.float64)
    size = torch.zeros(count, dtype=torch.float64)
    objective, unused = Causal(), torch.Generator()
    with scoring(model):
        for start in range(0, len(windows), batch):
            example = objective.corrupt({"input_ids": windows[start : start + batch]}, unused)
            where = documents[start : start + batch]
            nats.index_add_(0, where, next_token_losses(model, example).double().sum(1))
            size.index_add_(0, where, token_bytes[example.targets].double().sum(1))
    return nats / size / math.log(2)
