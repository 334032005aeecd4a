"""A step of training, ours and a plain loop over transformers' model: same weights, same hidden tokens, same dropout.

Which tokens are hidden is drawn beforehand, once for both. Both use torch's fused AdamW and clip gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

RATE, BETAS, EPS, DECAY, CLIP = 1e-4, (0.9, 0.95), 1e-8, 0.1, 1.0
#: More than any benchmark takes, so that the rate stays what it is.
STEPS = 10_000


def batches(data: str) -> list[dict[str, Any]]:
    """The micro-batches of a file: ids, targets, and the mask where rows are not full."""
    import torch

    with np.load(data) as stored:
        arrays = {name: torch.from_numpy(stored[name]) for name in stored.files}
    count = len(arrays["input_ids"])
    return [{name: value[i] for name, value in arrays.items()} for i in range(count)]


def ours(model: str, data: str, objective: str, steps: int = 1) -> Callable[..., list[float]]:
    """Steps by the product's own trainer; the job returns their losses. It takes ``rows``, to cut a batch."""
    import variorum
    from variorum.objectives.base import Corrupted
    from variorum.objectives.causal import Causal
    from variorum.objectives.masked import MaskedLM
    from variorum.training.loop import Trainer
    from variorum.training.optimiser import Optimisation

    kind: Any = {"masked_lm": MaskedLM, "causal_lm": Causal}[objective]

    class Drawn(kind):  # type: ignore[misc]
        """The objective with its draws already made."""

        def __init__(self) -> None:
            self.terms, self.pair, self.requires = (), None, (objective,)

        def corrupt(self, batch: Any, rng: Any) -> Corrupted:
            return Corrupted(inputs={k: v for k, v in batch.items() if k != "targets"}, targets=batch["targets"])

    network, given = variorum.load(model, head=objective, dtype="float32"), batches(data)
    cut: list[int | None] = [None]
    settings = Optimisation(
        steps=STEPS, rate=RATE, warmup=0, decay="constant", betas=BETAS, eps=EPS, weight_decay=DECAY, clip=CLIP
    )
    trainer = Trainer(network, Drawn(), lambda step: [_cut(given[step % len(given)], cut[0])], settings, seed=0)

    def job(rows: int | None = None) -> list[float]:
        cut[0] = rows
        return [trainer.advance().loss for _ in range(steps)]

    return job


def theirs(model: str, data: str, objective: str, steps: int = 1) -> Callable[..., list[float]]:
    """The same by a plain loop over transformers' model."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    kind: Any = {"masked_lm": AutoModelForMaskedLM, "causal_lm": AutoModelForCausalLM}[objective]
    network, given = kind.from_pretrained(model, dtype=torch.float32).train(), batches(data)
    parameters = list(network.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": DECAY},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPS, fused=True)
    done = [0]

    def step(rows: int | None) -> float:
        batch = _cut(given[done[0] % len(given)], rows)
        targets = batch.pop("targets")
        if objective == "masked_lm":
            loss = network(**batch, labels=targets).loss
        else:
            logits = network(**batch, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        done[0] += 1
        return float(loss)

    return lambda rows=None: [step(rows) for _ in range(steps)]


def _cut(batch: dict[str, Any], rows: int | None) -> dict[str, Any]:
    return {name: value[:rows] for name, value in batch.items()}
