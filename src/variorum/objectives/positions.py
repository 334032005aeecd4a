"""Labels of tokens, and stretches of a text: what is asked for lies within a text, not about the whole of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from variorum.objectives.base import IGNORED, Corrupted, LossSum, Objective
from variorum.objectives.streams import hidden, read_apart

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from variorum.objectives.base import Batch


class TokenLabels(Objective):
    """Predict ``labels`` [B, T] of tokens; -100 where nothing is asked."""

    name = "token_labels"

    def __init__(self, head: str = "token_classification") -> None:
        self.requires = (head,)

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Split the batch into what the model reads and ``labels``; nothing is drawn."""
        return split(batch)

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """Summed cross-entropy of the labelled tokens."""
        import torch.nn.functional as F

        asked = hidden(example.targets, example.inputs.get("attention_mask"))
        inputs, (targets,) = read_apart(model, example.inputs, asked)
        logits = model(**inputs).logits
        total = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")
        return LossSum(total=total, count=example.count)


class Stretches(Objective):
    """Predict ``labels`` [B, 2]: the first and the last token of a stretch. Padding is never it.

    A head that chooses the end for the start (answer_span) takes ``labels`` [B, 3], see
    :class:`variorum.parts.spans.SpanHead`, and gives its own loss.
    """

    name = "stretches"

    def __init__(self, head: str = "question_answering") -> None:
        self.requires = (head,)

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Split the batch into what the model reads and ``labels``; nothing is drawn."""
        return split(batch)

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """Summed cross-entropy of first and last tokens, over the tokens of their texts."""
        import torch
        import torch.nn.functional as F

        if self.requires[0] == "answer_span":
            mean = model(**example.inputs, labels=example.targets).loss
            return LossSum(total=mean * example.count, count=example.count)
        rows = torch.arange(len(example.targets), device=example.targets.device)
        inputs, (order,) = read_apart(model, example.inputs, rows)
        logits = by_text(model(**inputs).logits, inputs)
        total = F.cross_entropy(logits, example.targets[order], ignore_index=IGNORED, reduction="sum")
        return LossSum(total=total, count=example.count)


def split(batch: Batch) -> Corrupted:
    """A batch as what the model reads and what it is asked for."""
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    return Corrupted(inputs=inputs, targets=batch["labels"])


def by_text(logits: Tensor, inputs: Mapping[str, Any]) -> Tensor:
    """Scores of tokens [B, T, n], or of a stream's [1, total, n], as [B, T, n] with -inf at padding."""
    import torch

    if "lengths" in inputs:
        texts = logits[0].split(list(inputs["lengths"]))
        return torch.nn.utils.rnn.pad_sequence(list(texts), batch_first=True, padding_value=-torch.inf)
    mask = inputs.get("attention_mask")
    return logits if mask is None else logits.masked_fill(mask[..., None] == 0, -torch.inf)
