"""All that a step is computed by, as one module: what several processes are given to share."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from variorum.objectives.base import Corrupted, LossSum, Objective


class Whole(nn.Module):
    """An objective's loss as a forward pass, over every network that it trains or asks.

    DDP and FSDP2 see a step as calls of one module; a generator and the model it shares its embeddings with are then
    one thing to them, and so are a student and its teacher.
    """

    def __init__(self, objective: Objective, model: nn.Module, networks: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.objective, self.model = objective, model
        self.networks = nn.ModuleDict(networks)
        self.training = model.training

    def forward(self, example: Corrupted) -> LossSum:
        return self.objective.loss(self.model, example)
