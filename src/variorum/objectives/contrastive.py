"""Contrastive training of embeddings: each text finds its own among the texts of the whole step.

A step may be cut into pieces, and still every text is compared with those of all pieces: vectors are first made
without gradients, then each piece is embedded again with them (Gao et al. 2021, "GradCache"). Dropout is drawn alike
both times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from variorum.objectives.base import Corrupted, LossSum, Objective
from variorum.objectives.distillation import softened
from variorum.objectives.streams import unpadded

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch
    from variorum.spec.recipe import Contrast

    Vectors = tuple[torch.Tensor, torch.Tensor]

SIDES = ("first", "second")


class Contrastive(Objective):
    """Batches of ``first`` [B, S] and ``second`` [B, T], masks and special tokens included: texts that belong together.

    ``second`` may have further rows, B·n of them: what is to be told apart from the right one beside all others.
    """

    name = "contrastive"

    def __init__(self, contrast: Contrast, *, head: bool = True) -> None:
        self.contrast, self.requires = contrast, ("embedding",) if head else ()

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """The right answer to row i is row i; nothing is drawn."""
        import torch

        beside = {f"{side}{part}": batch[f"{side}{part}"] for side in SIDES for part in ("", "_mask")
                  if f"{side}{part}" in batch}  # fmt: skip
        return Corrupted(inputs={}, targets=torch.arange(len(batch["first"])), beside=beside)

    def across(self, model: torch.nn.Module, examples: Sequence[Corrupted]) -> list[Corrupted]:
        """Each piece with the vectors of all, and the place of its own among them."""
        import torch

        if len(examples) < 2:
            return list(examples)
        seeds, made = [], []
        with torch.no_grad():
            for example in examples:
                seeds.append(torch.get_rng_state())
                made.append(self.vectors(model, example))
        every = [_ordered([one[side] for one in made], [len(e.targets) for e in examples], side) for side in (0, 1)]
        told, start = [], 0
        for example, seed in zip(examples, seeds, strict=True):
            places = start + example.targets
            beside = {**example.beside, "all_first": every[0], "all_second": every[1], "seed": seed}
            told.append(dataclasses.replace(example, targets=places, beside=beside))
            start += len(places)
        return told

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """-log of the share that the right text has of all, by exp(cosine / temperature).

        The gradient is that of the whole step's loss through this piece's vectors; the value this piece's own part.
        """
        import torch

        if "seed" not in example.beside:
            return LossSum(total=self.judged(self.vectors(model, example), example), count=example.count)
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(example.beside["seed"].cpu())
            first, second = self.vectors(model, example)
        firsts, seconds = example.beside["all_first"], example.beside["all_second"]
        extra = torch.arange(len(example.targets), len(second)) - len(example.targets)
        own = len(firsts) + int(example.targets[0]) * (len(second) // len(first) - 1) + extra
        losses = self._losses(
            firsts.index_copy(0, example.targets, first),
            seconds.index_copy(0, torch.cat((example.targets, own.to(example.targets.device))), second),
        )
        value = losses[example.targets].sum().detach()
        return LossSum(total=losses.sum() - losses.sum().detach() + value, count=example.count)

    def vectors(self, model: torch.nn.Module, example: Corrupted) -> Vectors:
        """Of both sides' texts, of length 1: [B, D], and [B·(1 + n), D]."""
        first, second = (self._embedded(model, example, side) for side in SIDES)
        return first, second

    def judged(self, vectors: Vectors, example: Corrupted) -> torch.Tensor:
        """The summed loss of vectors."""
        return self._losses(*vectors).sum()

    def apart(self, student: Vectors, teacher: Vectors, temperature: float) -> torch.Tensor:
        """How far a student is from its teacher in what texts find: T²·KL of the shares, summed over first texts."""
        return softened(self._scores(*student), self._scores(*teacher), temperature)

    def _embedded(self, model: torch.nn.Module, example: Corrupted, side: str) -> torch.Tensor:
        """A vector of length 1 for each text, [B, D]: the head's, or the mean of the last states."""
        import torch
        from torch.nn import functional as F

        ids, mask = example.beside[side], example.beside.get(f"{side}_mask")
        inputs = {"input_ids": ids} | ({} if mask is None else {"attention_mask": mask})
        read, (order,) = unpadded(model, inputs, torch.arange(len(ids), device=ids.device))
        out = model(**read) if self.requires else model(**inputs)
        if not self.requires:
            real = torch.ones_like(ids) if mask is None else mask
            states = out.last_hidden_state * real[..., None]
            return F.normalize(states.sum(1) / real.sum(1, keepdim=True).clamp(min=1), dim=-1)
        return F.normalize(out.logits[order.argsort()], dim=-1)

    def _losses(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """The loss of each first text [B], over all second ones [B·(1 + n), D]."""
        import torch
        from torch.nn import functional as F

        scores, places = self._scores(first, second), torch.arange(len(first), device=first.device)
        losses = F.cross_entropy(scores, places, reduction="none")
        if self.contrast.ways == "one":
            return losses
        back = F.cross_entropy(scores[:, : len(first)].T, places, reduction="none")
        return (losses + back) / 2

    def _scores(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return first @ second.T / self.contrast.temperature


def _ordered(pieces: list[torch.Tensor], rows: list[int], side: int) -> torch.Tensor:
    """The vectors of all pieces: the right ones first, what else is to be told apart behind them."""
    import torch

    if side == 0:
        return torch.cat(pieces)
    right = [piece[:count] for piece, count in zip(pieces, rows, strict=True)]
    return torch.cat((*right, *(piece[count:] for piece, count in zip(pieces, rows, strict=True))))
