"""One text read, another written: translation, tasks said as text, and what all denoising objectives share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variorum.objectives.base import IGNORED, Corrupted, LossSum, Objective
from variorum.objectives.streams import unpadded

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch


class Rewriting(Objective):
    """The loss of an encoder-decoder that is given the right text one token late; labels smoothed as its spec says."""

    name = "text_to_text"
    requires: tuple[str, ...] = ("seq2seq_lm",)

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """``labels`` [B, U] apart from what is read, whatever that is; nothing is drawn.

        ``labels_mask`` is 0 at their padding, unless they hold -100 there.
        """
        labels, mask = batch["labels"], batch.get("labels_mask")
        labels = labels if mask is None else labels.masked_fill(mask == 0, IGNORED)
        read = {name: value for name, value in batch.items() if name not in ("labels", "labels_mask")}
        return Corrupted(inputs=read, targets=labels)

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """Summed cross-entropy of what is to be written; the encoder reads without padding where it can."""
        import torch

        rows = torch.arange(len(example.targets), device=example.targets.device)
        inputs, (order,) = unpadded(model, example.inputs, rows)
        targets = example.targets[order]
        return LossSum(total=model(**inputs, targets=targets).loss, count=example.count)
