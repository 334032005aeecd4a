"""Labels of whole texts or images: one of several, any of several, or numbers, as the head's spec says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variorum.objectives.base import IGNORED, Corrupted, LossSum, Objective, core
from variorum.objectives.streams import read_apart

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from variorum.objectives.base import Batch

WEIGHT = "weight"


class Labels(Objective):
    """Predict ``labels`` from what else the batch holds: int64 [B]; or float [B, labels], or [B] for one number.

    A batch may hold ``weight`` [B], by which a row's loss is multiplied; the mean is over rows all the same, so weights
    with a mean of 1 keep the learning rate's meaning.

    Args:
        head: which one answers.
        focus: the exponent of focal loss, which multiplies a loss by (1 - p)^focus of the right answer's probability p,
            so that what is known already counts less (Lin et al. 2017, equation 4); 0 is plain cross-entropy. Numbers
            know none.
    """

    name = "labels"

    def __init__(self, head: str = "sequence_classification", *, focus: float = 0.0) -> None:
        self.requires, self.focus = (head,), focus

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Split the batch into what the model reads, ``labels`` and ``weight``; nothing is drawn."""
        beside = {WEIGHT: batch[WEIGHT]} if WEIGHT in batch else {}
        inputs = {name: value for name, value in batch.items() if name not in ("labels", WEIGHT)}
        return Corrupted(inputs=inputs, targets=batch["labels"], beside=beside)

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """Summed loss over the labelled rows, each by its weight; texts are read without padding where they can be."""
        import torch

        rows = torch.arange(len(example.targets), device=example.targets.device)
        inputs, (order,) = read_apart(model, example.inputs, rows)
        problem = getattr(core(model).spec.architecture.heads[self.requires[0]], "problem", "single_label")
        each = losses(model(**inputs).logits, example.targets[order], problem, self.focus)
        if WEIGHT in example.beside:
            weight = example.beside[WEIGHT][order]
            each = each * weight.view(-1, *[1] * (each.dim() - 1))
        return LossSum(total=each.sum(), count=example.count)


def losses(logits: Tensor, targets: Tensor, problem: str, focus: float = 0.0) -> Tensor:
    """The loss of each target: logits [B, labels] and targets as in :class:`Labels` -> [B], or [B, labels]."""
    import torch
    import torch.nn.functional as F

    if problem == "regression":
        return F.mse_loss(logits.view(targets.shape), targets.to(logits.dtype), reduction="none")
    if problem == "multi_label":
        each = F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype), reduction="none")
    else:
        each = F.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="none")
    return each * (-torch.expm1(-each)) ** focus if focus else each
