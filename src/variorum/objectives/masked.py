"""Masked language modelling: predict the tokens that are hidden (Devlin et al. 2018), beside a pair task if any.

An enhanced mask decoder is a head, so it needs no objective of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from variorum.objectives.base import IGNORED, Corrupted, LossSum, Objective, Term, joined
from variorum.objectives.masking import choose, fixed, replaced
from variorum.objectives.streams import hidden, unpadded

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch
    from variorum.objectives.pairs import Pairs
    from variorum.objectives.symbols import Symbols
    from variorum.spec.recipe import Masking

PAIR = "pair"


class MaskedLM(Objective):
    """Rows of ``input_ids`` [B, T] with their special tokens; ``attention_mask`` and ``special_tokens_mask`` if any.

    With ``pair``, the batch is one of pairs instead; see :mod:`variorum.objectives.pairs`.
    """

    name = "masked_lm"

    def __init__(self, masking: Masking, symbols: Symbols, pair: Pairs | None = None) -> None:
        self.masking, self.symbols, self.pair = masking, symbols, pair
        self.requires = ("masked_lm",) if pair is None else ("masked_lm", *pair.requires)
        self.terms = () if pair is None else (PAIR,)

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Hide some tokens of each row, at least one; special ones and padding never."""
        if self.pair is None:
            return self._hide(batch, rng)
        texts, labels = self.pair.join(batch, rng)
        made = self._hide(texts, rng)
        return Corrupted(
            inputs=made.inputs, targets=made.targets, beside={PAIR: labels},
            counts={PAIR: int((labels != IGNORED).sum())},
        )  # fmt: skip

    def _hide(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        ids, mask = batch["input_ids"], batch.get("attention_mask")
        eligible = self.symbols.eligible(ids, mask, batch.get("special_tokens_mask"))
        if self.masking.copies is not None:
            chosen, read = fixed(ids, eligible, self.masking, self.symbols, rng)
        else:
            chosen = choose(ids, eligible, self.masking, self.symbols, rng)
            read = replaced(ids, chosen, self.masking, self.symbols, rng)
        inputs: dict[str, Any] = {k: v for k, v in batch.items() if k != "special_tokens_mask"} | {"input_ids": read}
        return Corrupted(inputs=inputs, targets=ids.masked_fill(~chosen, IGNORED))

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """Cross-entropy at the hidden tokens, which alone reach the vocabulary; plus the pair's."""
        import torch.nn.functional as F

        labels = [example.beside[PAIR]] if self.pair is not None else []
        targets = hidden(example.targets, example.inputs.get("attention_mask"))
        inputs, (targets, *labels) = unpadded(model, example.inputs, targets, *labels)
        out = model(**inputs, targets=targets)
        terms = [
            Term(PAIR, F.cross_entropy(out.logits_by_head[head], one, ignore_index=IGNORED, reduction="sum"))
            for head, one in zip(self.requires[1:], labels, strict=True)
        ]
        return joined(example, out.loss, *terms)
