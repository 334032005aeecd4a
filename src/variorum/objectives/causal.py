"""Causal language modelling: predict every next token.

Rows are windows of T + 1 tokens, so that T inputs meet T targets and no position is wasted. A token hidden
by ``attention_mask`` is never a target, whatever its id: the end token keeps counting where it shares its
id with the padding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from variorum.objectives.base import IGNORED, Corrupted, LossSum, Network

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch


class Causal:
    """Next-token prediction (Radford et al. 2018, section 3.1)."""

    name = "causal"
    requires = "causal_lm"

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Shift ``input_ids`` [B, T + 1] into T inputs and T targets; nothing is drawn."""
        import torch

        ids = batch["input_ids"]
        inputs, targets = ids[:, :-1], ids[:, 1:]
        mask = batch.get("attention_mask")
        if mask is None:
            return Corrupted(inputs={"input_ids": inputs}, targets=targets)
        hidden = torch.full_like(targets, IGNORED)
        return Corrupted(
            inputs={"input_ids": inputs, "attention_mask": mask[:, :-1]},
            targets=torch.where(mask[:, 1:].bool(), targets, hidden),
        )

    def loss(self, model: Network, example: Corrupted) -> LossSum:
        """Summed cross-entropy over the real targets."""
        import torch.nn.functional as F

        logits = model(**example.inputs).logits
        total = F.cross_entropy(logits.flatten(0, 1), example.targets.flatten(), ignore_index=IGNORED, reduction="sum")
        return LossSum(total=total, count=int((example.targets != IGNORED).sum()))


def next_token_losses(model: Network, example: Corrupted) -> torch.Tensor:
    """Loss in nats per target, [B, T]; 0 where nothing is asked."""
    import torch.nn.functional as F

    logits = model(**example.inputs).logits
    return F.cross_entropy(logits.transpose(1, 2), example.targets, ignore_index=IGNORED, reduction="none")
