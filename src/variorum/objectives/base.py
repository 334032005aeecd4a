"""The objective's contract: ``corrupt(batch, rng) → (inputs, targets)`` and ``loss(model, …)``.

A loss is handed over as a sum and a count, never as a mean, so that the loop normalises by the targets
of the whole step however the step was cut into pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    Batch = Mapping[str, torch.Tensor]

IGNORED = -100
"""Target value that no loss counts (the field's usual mark)."""


@dataclass(frozen=True, kw_only=True)
class Corrupted:
    """What the model reads, and what it is asked for.

    Attributes:
        inputs: keyword arguments of the model.
        targets: int64, :data:`IGNORED` where nothing is asked.
    """

    inputs: Batch
    targets: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class LossSum:
    """Summed loss in nats and the number of targets behind it."""

    total: torch.Tensor
    count: int


class Network(Protocol):
    """What an objective needs of a model: keyword inputs, an output with ``logits``."""

    def __call__(self, **inputs: Any) -> Any: ...


class Objective(Protocol):
    """One training task; ``requires`` names the head that a model must carry."""

    @property
    def name(self) -> str: ...

    @property
    def requires(self) -> str: ...

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Make inputs and targets; all randomness comes from ``rng``."""
        ...

    def loss(self, model: Network, example: Corrupted) -> LossSum:
        """Run the model and sum the loss over the targets."""
        ...
