"""The optimisers, their parameter groups, and the learning-rate schedules; all optimisers are torch's own.

Weight decay acts on matrices only: norms, biases and other vectors are left alone, as in the released
code of GPT-2's and LLaMA's reproductions. Tied parameters are stepped once. A parameter may learn at a share of the
common rate, its factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from variorum.errors import UsageError

if TYPE_CHECKING:
    import torch

Decay = Literal["linear", "cosine", "constant", "inverse_sqrt", "trapezoid"]
Kind = Literal["adamw", "adafactor", "muon"]


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
        kind: AdamW (fused), Adafactor (factored second moments), or Muon for the matrices inside layers and AdamW for
            tables, heads and vectors.
        cooldown: share of the steps over which a trapezoid falls.
        factors: learning rates over that of the step, by the parameter's name in the trainer (``model/…``); 1 where
            none is given.
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
    kind: Kind = "adamw"
    cooldown: float = 0.2
    factors: Mapping[str, float] = field(default_factory=dict)

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
        if self.decay == "inverse_sqrt":
            return math.sqrt((self.warmup + 1) / (step + 1))
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.floor + (1 - self.floor) * self._fall(done, step)

    def _fall(self, done: float, step: int) -> float:
        """From 1 to 0; ``done`` is the share of the steps after the warm-up that lies behind."""
        if self.decay == "linear":
            return 1 - done
        if self.decay == "cosine":
            return 0.5 * (1 + math.cos(math.pi * done))
        length = max(1, round(self.cooldown * self.steps))
        fallen = max(0, step - (self.steps - length)) / length
        return 1 - math.sqrt(fallen)  # Hägele et al. 2024, section 3: better than a straight line


def optimisers(named: Mapping[str, torch.nn.Parameter], settings: Optimisation) -> list[torch.optim.Optimizer]:
    """The optimisers of ``settings`` on parameters by name, each shared one given once.

    Raises:
        UsageError: Muon without matrices inside layers; Adafactor where each process holds a part of every tensor.
    """
    import torch

    if settings.kind == "adafactor":
        if any(hasattr(parameter, "to_local") for parameter in named.values()):
            raise UsageError(
                "torch's Adafactor takes means over whole rows and columns, which sharded tensors do not give it",
                remedy="use --strategy ddp, or another --optimiser",
            )
        return [torch.optim.Adafactor(_groups(named, settings), lr=settings.rate)]
    if settings.kind == "adamw":
        return [_adamw(named, settings)]
    inner = {name: p for name, p in named.items() if p.ndim == 2 and ".layers." in name}
    if not inner:
        raise UsageError("there are no matrices inside layers for muon to step", remedy="use adamw")
    groups = _groups(inner, settings)
    muon = torch.optim.Muon(groups, lr=settings.rate, adjust_lr_fn="match_rms_adamw")
    return [muon, _adamw({name: p for name, p in named.items() if name not in inner}, settings)]


def adamw(model: torch.nn.Module, settings: Optimisation) -> torch.optim.AdamW:
    """AdamW (fused) on the trainable parameters of ``model``, each shared one once."""
    return _adamw({name: p for name, p in model.named_parameters() if p.requires_grad}, settings)


def _adamw(named: Mapping[str, torch.nn.Parameter], settings: Optimisation) -> torch.optim.AdamW:
    import torch

    groups = _groups(named, settings)
    return torch.optim.AdamW(groups, lr=settings.rate, betas=settings.betas, eps=settings.eps, fused=True)


def _groups(named: Mapping[str, torch.nn.Parameter], settings: Optimisation) -> list[dict[str, Any]]:
    """A group for each factor and weight decay: matrices first, the fastest first."""
    groups: dict[tuple[float, bool], list[torch.nn.Parameter]] = {}
    for name, parameter in named.items():
        key = settings.factors.get(name, 1.0), parameter.ndim >= 2
        groups.setdefault(key, []).append(parameter)
    return [
        {"params": groups[factor, decays], "factor": factor, "weight_decay": settings.weight_decay if decays else 0.0}
        for factor, decays in sorted(groups, key=lambda key: (not key[1], -key[0]))
    ]


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Give every parameter group the learning rate ``rate``, times its factor."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["factor"]


def clip(parameters: Iterable[torch.nn.Parameter], limit: float) -> float:
    """Scale all gradients so that their common norm is at most ``limit``; returns the norm before."""
    import torch

    return float(torch.nn.utils.clip_grad_norm_(list(parameters), limit))
