"""AdamW, its parameter groups, and the learning-rate schedules.

Weight decay acts on matrices only: norms, biases and other vectors are left alone, as in the released
code of GPT-2's and LLaMA's reproductions. Tied parameters are stepped once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from variorum.errors import UsageError

if TYPE_CHECKING:
    import torch

Decay = Literal["linear", "cosine", "constant"]


@dataclass(frozen=True, kw_only=True)
class Optimisation:
    """Everything that the optimiser is told, equal for every arm of a study.

    Attributes:
        steps: optimiser steps of the whole run.
        rate: peak learning rate.
        warmup: steps of linear rise from 0 to the peak.
        decay: shape of the fall after the warm-up.
        floor: share of the peak at which the fall ends.
        clip: largest global gradient norm.
    """

    steps: int
    rate: float
    warmup: int
    decay: Decay = "linear"
    floor: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1
    clip: float = 1.0

    def __post_init__(self) -> None:
        if self.steps < 1 or not 0 <= self.warmup < self.steps:
            raise UsageError(
                f"a warm-up of {self.warmup} does not fit {self.steps} steps",
                where="optimisation",
                remedy="train longer or warm up for fewer steps",
            )

    def factor(self, step: int) -> float:
        """Learning rate of step ``step`` (from 0) over the peak; never 0, so that no step is wasted."""
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1)
        if self.decay == "constant":
            return 1.0
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        shape = 1 - done if self.decay == "linear" else 0.5 * (1 + math.cos(math.pi * done))
        return self.floor + (1 - self.floor) * shape


def adamw(model: torch.nn.Module, settings: Optimisation) -> torch.optim.AdamW:
    """AdamW (fused) on the trainable parameters of ``model``, each shared one once."""
    import torch

    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [g for g in groups if g["params"]], lr=settings.rate, betas=settings.betas, eps=settings.eps, fused=True
    )


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Give every parameter group the learning rate ``rate``."""
    for group in optimiser.param_groups:
        group["lr"] = rate
