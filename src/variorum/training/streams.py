"""Named random streams, so that no choice in a run shifts the randomness of another.

Data order, dropout and masking each draw from their own stream, derived from (seed, name). Two arms that
differ in architecture therefore read the same batches in the same order. Initial values have streams of
their own, per parameter, in the model builder.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variorum.errors import UsageError

if TYPE_CHECKING:
    import torch

DATA_ORDER = "data order"
DROPOUT = "dropout"
CORRUPTION = "corruption"


def stream_seed(seed: int, name: str) -> int:
    """A 63-bit seed for the stream ``name`` of run ``seed``; equal on every platform."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def stream(seed: int, name: str) -> torch.Generator:
    """A generator of its own for ``name``."""
    import torch

    generator = torch.Generator()
    generator.manual_seed(stream_seed(seed, name))
    return generator


@dataclass(frozen=True, kw_only=True)
class DataOrder:
    """Which rows each step reads: epochs of shuffled rows, every row once per epoch.

    The order is a pure function of (seed, step), so a run restarts at any step without replaying the ones
    before. A step may straddle two epochs.
    """

    rows: int
    batch: int
    seed: int

    def __post_init__(self) -> None:
        if self.batch < 1 or self.rows < self.batch:
            raise UsageError(
                f"{self.rows} rows cannot fill a batch of {self.batch}",
                where="data order",
                remedy="use more text or a smaller batch",
            )

    def epoch(self, number: int) -> torch.Tensor:
        """The shuffled row numbers of one epoch, [rows]."""
        import torch

        return torch.randperm(self.rows, generator=stream(self.seed, f"{DATA_ORDER}/{number}"))

    def step(self, step: int) -> torch.Tensor:
        """Row numbers of step ``step`` (from 0), [batch]."""
        import torch

        start = step * self.batch
        first, offset = divmod(start, self.rows)
        picked = self.epoch(first)[offset : offset + self.batch]
        if len(picked) < self.batch:
            picked = torch.cat([picked, self.epoch(first + 1)[: self.batch - len(picked)]])
        return picked
