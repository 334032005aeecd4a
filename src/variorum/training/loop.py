"""The training loop: draw, corrupt, score, step, report. One screen, no framework.

It returns a loss log and leaves the trained weights in the model. It writes no files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variorum.errors import RunFailed
from variorum.training.optimiser import Optimisation, adamw, set_rate
from variorum.training.streams import CORRUPTION, DROPOUT, stream, stream_seed

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch, Objective

PiecesOfStep = Callable[[int], "Sequence[Batch]"]
"""Step number to the micro-batches of that step; a pure function, so that any step can be drawn again."""


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """One optimiser step: ``loss`` in nats per target over the whole step, ``norm`` before clipping."""

    step: int
    loss: float
    targets: int
    rate: float
    norm: float


def train(
    model: torch.nn.Module,
    objective: Objective,
    pieces: PiecesOfStep,
    settings: Optimisation,
    *,
    seed: int,
    after_step: Callable[[StepRecord], None] | None = None,
    steps: int | None = None,
) -> list[StepRecord]:
    """Train ``model`` in place.

    Args:
        pieces: step number → micro-batches; gradients are those of one batch holding all of them.
        seed: names the streams of dropout and corruption; data order is inside ``pieces``.
        after_step: called after every step, for progress and held-out scores.
        steps: stop early after this many steps (a measured start); the schedule still spans ``settings.steps``.

    Raises:
        RunFailed: the loss or a gradient is not finite; the weights stay as they were before that step.
    """
    import torch

    optimiser = adamw(model, settings)
    log: list[StepRecord] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, DROPOUT))
        for step in range(settings.steps if steps is None else steps):
            model.train()
            loss, targets = _backward(model, objective, pieces(step), rng=stream(seed, f"{CORRUPTION}/{step}"))
            norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip))
            _healthy(loss, norm, step)
            rate = settings.rate * settings.factor(step)
            set_rate(optimiser, rate)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            log.append(StepRecord(step=step, loss=loss, targets=targets, rate=rate, norm=norm))
            if after_step is not None:
                after_step(log[-1])
    return log


def _backward(
    model: torch.nn.Module, objective: Objective, pieces: Sequence[Batch], *, rng: torch.Generator
) -> tuple[float, int]:
    """Accumulate gradients of the mean over the targets of *all* pieces; returns that mean and the count."""
    examples = [objective.corrupt(piece, rng) for piece in pieces]
    targets = sum(int((example.targets >= 0).sum()) for example in examples)
    total = 0.0
    for example in examples:
        part = objective.loss(model, example)
        (part.total / max(1, targets)).backward()
        total += part.total.item()
    return total / max(1, targets), targets


def _healthy(loss: float, norm: float, step: int) -> None:
    if not math.isfinite(loss) or not math.isfinite(norm):
        raise RunFailed(
            f"loss {loss:g}, gradient norm {norm:g}",
            where=f"step {step}",
            remedy="the weights are those of the step before; lower the learning rate or warm up for longer",
        )
