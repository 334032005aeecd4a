"""Token ids to vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from variorum.errors import UsageError
from variorum.parts.norms import build_norm
from variorum.parts.positions import sinusoids
from variorum.spec import architecture as spec
from variorum.spec.positions import Learned, Sinusoidal


class TokenInput(nn.Module):
    """Table, positions, segments, scale, norm, projection: ids [B, T] -> [B, T, D]."""

    def __init__(self, inputs: spec.TokenInput, width: int) -> None:
        super().__init__()
        self.spec = inputs
        rank = inputs.rank or width
        self.table = nn.Embedding(inputs.vocab, rank)
        if isinstance(inputs.positions, Learned):
            self.positions = nn.Embedding(inputs.positions.rows, rank)
        if inputs.segments:
            self.segments = nn.Embedding(inputs.segments, rank)
        self.norm = build_norm(inputs.norm, rank)
        self.project = nn.Linear(rank, width) if inputs.rank is not None else nn.Identity()
        if inputs.query_vector:
            self.query_vector = nn.Parameter(torch.empty(width))

    def forward(
        self, vectors: Tensor, positions: Tensor, segments: Tensor | None = None, real: Tensor | None = None
    ) -> Tensor:
        """Looked-up vectors [B, T, rank], positions [B or 1, T], segments and real (bool) [B, T] -> [B, T, D]."""
        inputs = self.spec
        x = vectors if inputs.scale is None else vectors * torch.tensor(inputs.scale, dtype=vectors.dtype)
        if inputs.segments:
            kinds = torch.zeros_like(positions) if segments is None else segments
            x = x + self.segments(kinds)
        if isinstance(inputs.positions, Learned):
            x = x + self.positions(self._rows(inputs.positions, positions))
        elif isinstance(inputs.positions, Sinusoidal):
            halves = inputs.positions.layout == "halves"
            x = x + sinusoids(positions, x.shape[-1], inputs.positions.base, halves=halves, dtype=x.dtype)
        x = self.norm(x)
        if inputs.mask_padding and real is not None:
            x = x * real[..., None]
        return self.project(F.dropout(x, inputs.dropout, self.training))

    def _rows(self, learned: Learned, positions: Tensor) -> Tensor:
        # A padded slot stands at -1: the row before the first, which is RoBERTa's for padding, or row 0.
        rows = (positions + learned.offset).clamp(min=0)
        longest = int(rows.max()) + 1 if rows.numel() else 0
        if longest > learned.rows:
            usable = learned.rows - learned.offset
            raise UsageError(
                f"text of {longest - learned.offset} tokens is longer than the {usable} this model takes",
                remedy="shorten it, or split it into windows",
            )
        return rows
