"""Batches and predictions for a classifier trained on labelled texts.

Texts arrive as token ids; they are padded to the longest row of their batch, and every position that is
padding is masked. Cutting a text is counted, never silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variorum.errors import UsageError
from variorum.training.evaluate import scoring

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Labelled texts as ids: ``rows`` of at most the model's length, and how many were ``cut`` to fit."""

    rows: tuple[tuple[int, ...], ...]
    labels: tuple[int, ...]
    cut: int


def wrap(ids: Sequence[Sequence[int]], labels: Sequence[int], *, first: int, last: int, longest: int) -> Encoded:
    """Put the wrapper tokens around each text, cutting texts that do not fit ``longest`` tokens with them."""
    room = longest - 2
    rows = tuple((first, *row[:room], last) for row in ids)
    return Encoded(rows=rows, labels=tuple(labels), cut=sum(len(row) > room for row in ids))


def collate(rows: Sequence[Sequence[int]], labels: Sequence[int] | None, *, pad: int) -> Batch:
    """Right-padded ``input_ids`` and ``attention_mask`` [B, T], and ``labels`` [B] where given."""
    import torch

    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), pad, dtype=torch.long)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        mask[i, : len(row)] = 1
    batch = {"input_ids": ids, "attention_mask": mask}
    if labels is not None:
        batch["labels"] = torch.tensor(list(labels), dtype=torch.long)
    return batch


def by_length(rows: Sequence[Sequence[int]], *, tokens: int) -> list[list[int]]:
    """Row numbers in batches of at most ``tokens`` padded tokens, similar lengths together."""
    batches: list[list[int]] = []
    for i in sorted(range(len(rows)), key=lambda i: len(rows[i])):
        if not batches or (len(batches[-1]) + 1) * len(rows[i]) > tokens:
            batches.append([])
        batches[-1].append(i)
    return batches


def predict(
    model: torch.nn.Module, rows: Sequence[Sequence[int]], *, pad: int, tokens: int = 4096
) -> tuple[torch.Tensor, torch.Tensor]:
    """Class ids [items] and log-probabilities [items, classes] in the order of ``rows``."""
    import torch

    if not rows:
        raise UsageError("no texts to predict", where="classify")
    batches = by_length(rows, tokens=tokens)
    with scoring(model):
        parts = [
            model(**collate([rows[i] for i in picked], None, pad=pad)).logits.log_softmax(-1) for picked in batches
        ]
    scores = torch.empty_like(torch.cat(parts))
    scores[[i for picked in batches for i in picked]] = torch.cat(parts)
    return scores.argmax(-1), scores
