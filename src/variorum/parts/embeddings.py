"""What a stack reads as vectors: token ids, patches of an image, frames of a sound."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import torch
from torch import Tensor, nn

from variorum.errors import UsageError
from variorum.parts.clusters import ClusteredTable
from variorum.parts.dropout import dropout
from variorum.parts.feedforward import ACTIVATIONS
from variorum.parts.norms import build_norm
from variorum.parts.positions import sinusoids
from variorum.spec import inputs as spec
from variorum.spec.positions import Learned, Sinusoidal

_BOUND: ContextVar[int | None] = ContextVar("_BOUND", default=None)


@contextlib.contextmanager
def positions_below(bound: int) -> Iterator[None]:
    """Within, every position is known to be below ``bound``, so that no device is asked for the greatest."""
    token = _BOUND.set(bound)
    try:
        yield
    finally:
        _BOUND.reset(token)


def _beyond(positions: Tensor) -> int:
    """A number that all of ``positions`` are below."""
    known = _BOUND.get()
    return int(positions.max()) + 1 if known is None else known


class TokenInput(nn.Module):
    """Table, positions, segments, scale, norm, projection: ids [B, T] -> [B, T, D]."""

    def __init__(self, inputs: spec.TokenInput, width: int) -> None:
        super().__init__()
        self.spec = inputs
        rank = inputs.rank or width
        if inputs.clusters is not None:
            self.table: nn.Module = ClusteredTable(inputs.clusters, inputs.vocab, rank, width)
            rank = width
        else:
            self.table = nn.Embedding(inputs.vocab, rank)
        self.table.padding_idx = None if inputs.pad_learns else inputs.pad_id
        if isinstance(inputs.positions, Learned):
            self.positions = nn.Embedding(inputs.positions.rows, rank)
        if inputs.segments:
            self.segments = nn.Embedding(inputs.segments, rank)
        self.norm = build_norm(inputs.norm, rank)
        projects = inputs.rank is not None and inputs.clusters is None
        self.project = nn.Linear(rank, width) if projects else nn.Identity()
        if inputs.query_vector:
            self.query_vector = nn.Parameter(torch.empty(width))

    def look(self, data: Tensor) -> Tensor:
        """Ids [B, T] -> their rows of the table [B, T, rank]."""
        rows: Tensor = self.table(data)
        return rows

    def forward(self, vectors: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
        """Looked-up vectors [B, T, rank], positions [B or 1, T] and segments [B, T] -> [B, T, D]."""
        inputs = self.spec
        x = vectors if inputs.scale is None else vectors * torch.tensor(inputs.scale, dtype=vectors.dtype)
        if inputs.segments:
            kinds = torch.zeros_like(positions) if segments is None else segments
            x = x + self.segments(kinds)
        x = self.norm(_placed(x, inputs.positions, self, positions))
        return self.project(dropout(x, inputs.dropout, self.training))


class PatchInput(nn.Module):
    """Images [B, C, side, side] -> [B, 1 + patches, D], the learned first vector in front."""

    def __init__(self, inputs: spec.PatchInput, width: int) -> None:
        super().__init__()
        self.spec = inputs
        self.first = nn.Parameter(torch.empty(width))
        self.patches = nn.Conv2d(inputs.channels, width, inputs.patch, stride=inputs.patch)
        if isinstance(inputs.positions, Learned):
            self.positions = nn.Embedding(inputs.positions.rows, width)

    def look(self, data: Tensor) -> Tensor:
        """Pixels [B, C, side, side] -> one vector each for the image and its patches, [B, T, D].

        Raises:
            UsageError: an image of another size or number of channels.
        """
        wanted = (self.spec.channels, self.spec.image, self.spec.image)
        if tuple(data.shape[1:]) != wanted:
            shown = " × ".join(map(str, data.shape[1:]))
            raise UsageError(f"an image of {shown}", remedy=f"this model reads {' × '.join(map(str, wanted))}")
        x = self.patches(data).flatten(2).transpose(1, 2)
        return torch.cat((self.first.expand(len(x), 1, -1), x), 1)

    def forward(self, vectors: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
        """As for tokens: vectors [B, T, D], positions [B or 1, T] -> [B, T, D]."""
        x = _placed(vectors, self.spec.positions, self, positions)
        return dropout(x, self.spec.dropout, self.training)


class MelInput(nn.Module):
    """Log-mel spectrograms [B, mels, frames] -> [B, frames / 2, D]."""

    def __init__(self, inputs: spec.MelInput, width: int) -> None:
        super().__init__()
        self.spec, self.activation = inputs, ACTIVATIONS[inputs.activation]
        edge = inputs.kernel // 2
        self.conv1 = nn.Conv1d(inputs.mels, width, inputs.kernel, padding=edge)
        self.conv2 = nn.Conv1d(width, width, inputs.kernel, padding=edge, stride=2)
        if isinstance(inputs.positions, Learned):
            self.positions = nn.Embedding(inputs.positions.rows, width)

    def look(self, data: Tensor) -> Tensor:
        """Spectrograms [B, mels, frames] -> [B, T, D].

        Raises:
            UsageError: another number of bands.
        """
        if data.dim() != 3 or data.shape[1] != self.spec.mels:
            shown = " × ".join(map(str, data.shape))
            raise UsageError(f"features of {shown}", remedy=f"this model reads batch × {self.spec.mels} × frames")
        return self.activation(self.conv2(self.activation(self.conv1(data)))).transpose(1, 2)

    def forward(self, vectors: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
        """As for tokens: vectors [B, T, D], positions [B or 1, T] -> [B, T, D]."""
        x = _placed(vectors, self.spec.positions, self, positions)
        return dropout(x, self.spec.dropout, self.training)


def build_input(inputs: spec.AnyInput, width: int) -> TokenInput | PatchInput | MelInput:
    """The module for an input spec."""
    if isinstance(inputs, spec.TokenInput):
        return TokenInput(inputs, width)
    return PatchInput(inputs, width) if isinstance(inputs, spec.PatchInput) else MelInput(inputs, width)


def keep_table(inputs: nn.Module, table: Tensor) -> None:
    """Let ``inputs`` read its sinusoids from ``table`` [rows, D] as far as it goes: what a file stores is rounded."""
    inputs.register_buffer("stored", table, persistent=False)


def _placed(x: Tensor, scheme: Learned | Sinusoidal | None, inputs: nn.Module, positions: Tensor) -> Tensor:
    """``x`` [B, T, D] with its positions [B or 1, T] added, from a table of ``inputs`` or computed."""
    if isinstance(scheme, Learned):
        return x + inputs.get_submodule("positions")(learned_rows(positions, scheme.offset, scheme.rows))
    if isinstance(scheme, Sinusoidal):
        stored = getattr(inputs, "stored", None)
        if stored is not None and _beyond(positions) <= len(stored):
            return x + stored[positions.clamp(min=0)].to(x.dtype)
        halves = scheme.layout == "halves"
        return x + sinusoids(positions, x.shape[-1], scheme.base, halves=halves, dtype=x.dtype)
    return x


def learned_rows(positions: Tensor, offset: int, rows: int) -> Tensor:
    """The row of a table of ``rows`` for each position, same shape; ``offset`` rows come before position 0.

    Raises:
        UsageError: a position beyond the table.
    """
    # A padded slot stands at -1: the row before the first, which is RoBERTa's for padding, or row 0.
    found = (positions + offset).clamp(min=0)
    longest = max(0, _beyond(positions) + offset) if found.numel() else 0
    if longest > rows:
        raise UsageError(
            f"text of {longest - offset} tokens is longer than the {rows - offset} this model takes",
            remedy="shorten it, or split it into windows",
        )
    return found
