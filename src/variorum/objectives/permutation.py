"""Permutation language modelling: predict some tokens in a random order, through two streams (Yang et al. 2019).

Only the tokens that are predicted hide from others: a token without a question is seen by all, and sees none of those
that have one (released code). Positions never change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from variorum.objectives.base import IGNORED, Corrupted, LossSum, Objective

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch
    from variorum.objectives.symbols import Symbols
    from variorum.spec.recipe import Masking


class Permutation(Objective):
    """Rows of ``input_ids`` [B, T] with their special tokens, which are never predicted."""

    name = "permutation_lm"
    requires = ("permutation_lm",)

    def __init__(self, masking: Masking, symbols: Symbols) -> None:
        self.rate, self.longest, self.symbols = masking.rate, round(2 * (masking.span or 1.0) - 1), symbols

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Choose runs to predict and an order; no token is replaced."""
        import torch

        ids, mask = batch["input_ids"], batch.get("attention_mask")
        eligible = self.symbols.eligible(ids, mask, batch.get("special_tokens_mask"))
        asked = torch.stack([self._runs(row, rng) for row in eligible])
        ranks = torch.stack([torch.randperm(ids.shape[1], generator=rng) for _ in ids])
        perm_mask = hiding(asked, eligible, ranks)
        mapping, targets = questions(asked, ids)
        inputs = {k: v for k, v in batch.items() if k != "special_tokens_mask"}
        return Corrupted(inputs={**inputs, "perm_mask": perm_mask, "target_mapping": mapping}, targets=targets)

    def _runs(self, eligible: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        """Runs of 1 to ``longest`` tokens, each somewhere in a stretch of the run's length by the rate."""
        import torch

        chosen, at = torch.zeros_like(eligible), 0
        while at < len(eligible):
            run = int(torch.randint(1, self.longest + 1, (), generator=rng))
            stretch = int(run / self.rate)
            start = at + int(torch.randint(stretch - run + 1, (), generator=rng))
            chosen[start : start + run] = True
            at += stretch
        chosen &= eligible
        if not chosen.any() and eligible.any():
            places = eligible.nonzero().flatten()
            chosen[places[torch.randint(len(places), (), generator=rng)]] = True
        return chosen

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """Cross-entropy at the predicted tokens, from the query stream."""
        return LossSum(total=model(**example.inputs, targets=example.targets).loss, count=example.count)


def hiding(asked: torch.Tensor, words: torch.Tensor, ranks: torch.Tensor) -> torch.Tensor:
    """1 where token i may not see token j, [B, T, T]: j is asked for and comes no sooner than i in the order.

    Args:
        asked: the tokens to predict, bool [B, T].
        words: neither special nor padding, bool [B, T]; those that are not asked for come before all.
        ranks: places in the order, int64 [B, T].
    """
    ranks = ranks.masked_fill(words & ~asked, -1)
    return ((ranks[:, :, None] <= ranks[:, None, :]) & asked[:, None, :]).long()


def questions(asked: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One-hot rows [B, P, T] of the tokens to predict, and which they are [B, P]; spare rows ask nothing."""
    import torch

    most = max(1, int(asked.sum(-1).max()))
    places = (~asked).long().argsort(dim=-1, stable=True)[:, :most]
    real = asked.gather(1, places)
    mapping = torch.nn.functional.one_hot(places, ids.shape[1]).float()
    return mapping, ids.gather(1, places).masked_fill(~real, IGNORED)
