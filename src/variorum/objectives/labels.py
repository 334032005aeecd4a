"""Classification: one label for each text or image, cross-entropy over the label set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variorum.objectives.base import IGNORED, Corrupted, LossSum, Objective

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch


class Labels(Objective):
    """Predict ``labels`` [B] from what else the batch holds."""

    name = "labels"

    def __init__(self, head: str = "sequence_classification") -> None:
        self.requires = (head,)

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Split the batch into what the model reads and ``labels``; nothing is drawn."""
        return Corrupted(inputs={k: v for k, v in batch.items() if k != "labels"}, targets=batch["labels"])

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """Summed cross-entropy over the labelled rows."""
        import torch.nn.functional as F

        logits = model(**example.inputs).logits
        total = F.cross_entropy(logits, example.targets, ignore_index=IGNORED, reduction="sum")
        return LossSum(total=total, count=example.count)
