"""Causal language modelling: predict every next token.

Rows are windows of T + 1 tokens, so that T inputs meet T targets and no position is wasted. A token hidden
by ``attention_mask`` is never a target, whatever its id: the end token keeps counting where it shares its
id with the padding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from variorum.objectives.base import IGNORED, Corrupted, LossSum, Objective
from variorum.objectives.streams import hidden, word_loss

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch


class Causal(Objective):
    """Next-token prediction (Radford et al. 2018, section 3.1)."""

    name = "causal_lm"
    requires = ("causal_lm",)

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Shift ``input_ids`` [B, T + 1] into T inputs and T targets; nothing is drawn."""
        ids = batch["input_ids"]
        inputs, targets = ids[:, :-1], ids[:, 1:]
        mask = batch.get("attention_mask")
        if mask is None:
            return Corrupted(inputs={"input_ids": inputs}, targets=targets)
        return Corrupted(
            inputs={"input_ids": inputs, "attention_mask": mask[:, :-1]},
            targets=hidden(hidden(targets, mask[:, 1:]), mask[:, :-1]),
        )

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """Summed cross-entropy over the real targets."""
        return word_loss(model, example)


class Prefix(Objective):
    """Of each row a part is read from both sides, and the rest is written (Raffel et al. 2019, section 3.2.1).

    Where the prefix ends is drawn. A decoder alone reads it in place; an encoder-decoder reads it with the encoder.
    """

    name = "prefix_lm"

    def __init__(self, *, two_stacks: bool, pad: int = 0) -> None:
        self.two_stacks, self.pad = two_stacks, pad
        self.requires = ("seq2seq_lm",) if two_stacks else ("causal_lm",)

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Cut each text [B, T] in two, both with a token at least; a text of one token is not asked about."""
        import torch

        ids, mask = batch["input_ids"], batch.get("attention_mask")
        mask = torch.ones_like(ids) if mask is None else mask
        texts = [row[real.bool()].tolist() for row, real in zip(ids, mask, strict=True)]
        draws = torch.rand(len(texts), generator=rng).tolist()
        cuts = [1 + int(draw * (len(text) - 1)) for text, draw in zip(texts, draws, strict=True)]
        from variorum.objectives.pairs import padded

        if self.two_stacks:
            read, real = padded([text[:cut] for text, cut in zip(texts, cuts, strict=True)], self.pad)
            written, _ = padded([text[cut:] for text, cut in zip(texts, cuts, strict=True)], IGNORED)
            return Corrupted(inputs={"input_ids": read, "attention_mask": real}, targets=written)
        read, real = padded([text[:-1] for text in texts], self.pad)
        written, _ = padded([text[1:] for text in texts], IGNORED)
        lengths = torch.tensor(cuts)
        inside = torch.arange(read.shape[1])[None] < lengths[:, None] - 1
        inputs = {"input_ids": read, "attention_mask": real, "prefix_lengths": lengths}
        return Corrupted(inputs=inputs, targets=written.masked_fill(inside, IGNORED))

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """Summed cross-entropy of what follows the prefix."""
        return LossSum(total=model(**example.inputs, targets=example.targets).loss, count=example.count)


class BothDirections(Objective):
    """Each word from those before it, and from those after it (Peters et al. 2018, ELMo)."""

    name = "bidirectional_lm"
    requires = ("bidirectional_lm",)

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Targets [B, T, 2]: the next token and the one before; nothing is drawn."""
        import torch

        ids, mask = batch["input_ids"], batch.get("attention_mask")
        real = torch.ones_like(ids) if mask is None else mask
        ways = torch.full((*ids.shape, 2), IGNORED)
        both = (real[:, 1:] * real[:, :-1]).bool()
        ways[:, :-1, 0] = ids[:, 1:].masked_fill(~both, IGNORED)
        ways[:, 1:, 1] = ids[:, :-1].masked_fill(~both, IGNORED)
        return Corrupted(inputs=dict(batch), targets=ways)

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """Summed cross-entropy of both ways."""
        import torch.nn.functional as F

        asked = example.targets != IGNORED
        scores = model(**example.inputs).logits[asked]
        return LossSum(total=F.cross_entropy(scores, example.targets[asked], reduction="sum"), count=example.count)


def next_token_losses(model: torch.nn.Module, example: Corrupted) -> torch.Tensor:
    """Loss in nats per target, [B, T]; 0 where nothing is asked."""
    import torch.nn.functional as F

    logits = model(**example.inputs).logits
    return F.cross_entropy(logits.transpose(1, 2), example.targets, ignore_index=IGNORED, reduction="none")
