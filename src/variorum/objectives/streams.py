"""Padded rows as one stream without padding, for models that read texts end to end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from variorum.objectives.base import IGNORED, Corrupted, LossSum, core

if TYPE_CHECKING:
    import torch

PER_TOKEN = ("input_ids", "token_type_ids", "position_ids")


def unpadded(
    model: torch.nn.Module, inputs: Mapping[str, Any], *marks: torch.Tensor
) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """The same texts without their padding, the longest first; unchanged where there is none, or the model cannot.

    Args:
        inputs: of the model, rows [B, T].
        marks: what goes with the tokens [B, T] or with the rows [B]; in the order of the texts that come back.
    """
    mask = inputs.get("attention_mask")
    packs = getattr(core(model), "packs", False)
    if mask is None or not packs or set(inputs) - {*PER_TOKEN, "attention_mask"} or bool(mask.all()):
        return dict(inputs), list(marks)
    lengths = mask.sum(-1)
    order = lengths.argsort(descending=True, stable=True)
    order = order[lengths[order] > 0]
    real = mask[order].bool()
    stream: dict[str, Any] = {
        name: value[order][real][None] for name, value in inputs.items() if name != "attention_mask"
    }
    moved = [mark[order] if mark.dim() == 1 else mark[order][real][None] for mark in marks]
    return {**stream, "lengths": lengths[order].tolist()}, moved


def read_apart(
    model: torch.nn.Module, inputs: Mapping[str, Any], *marks: torch.Tensor
) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """As :func:`unpadded`; padded rows stay where a decoder reads the text once more, and of choices among texts."""
    stacks, mask = core(model).spec.architecture, inputs.get("attention_mask")
    if mask is None or mask.dim() != 2 or (stacks.encoder is not None and stacks.decoder is not None):
        return dict(inputs), list(marks)
    return unpadded(model, inputs, *marks)


def word_loss(model: torch.nn.Module, example: Corrupted) -> LossSum:
    """The summed loss of a model's first head, over its vocabulary; only what is asked reaches the vocabulary."""
    mask = example.inputs.get("attention_mask")
    if mask is None or example.targets.shape != mask.shape:
        inputs, targets = example.inputs, example.targets
    else:
        inputs, (targets,) = unpadded(model, example.inputs, hidden(example.targets, mask))
    return LossSum(total=model(**inputs, targets=targets).loss, count=example.count)


def hidden(targets: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Targets [B, T], those where the mask is 0 not asked for."""
    return targets if mask is None else targets.masked_fill(mask == 0, IGNORED)
