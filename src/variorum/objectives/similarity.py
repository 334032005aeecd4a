"""Embeddings trained on how alike two texts are said to be: the cosine of their vectors is to be that number."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from variorum.objectives.base import Corrupted
from variorum.objectives.contrastive import Contrastive
from variorum.spec.recipe import Contrast

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch
    from variorum.objectives.contrastive import Vectors


class Similarity(Contrastive):
    """Batches of ``first`` and ``second`` as :class:`Contrastive` has them, and ``labels`` [B], cosines from -1 to 1.

    Each pair is judged alone, by the square of the difference (Reimers & Gurevych 2019, section 3.1).
    """

    name = "similarity"

    def __init__(self, *, head: bool = True) -> None:
        super().__init__(Contrast(), head=head)

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """The texts apart from what is asked of them; nothing is drawn."""
        return dataclasses.replace(super().corrupt(batch, rng), targets=batch["labels"].float())

    def across(self, model: torch.nn.Module, examples: Sequence[Corrupted]) -> list[Corrupted]:
        """No piece of a step needs to know another."""
        return list(examples)

    def judged(self, vectors: Vectors, example: Corrupted) -> torch.Tensor:
        """The summed square of cosine less label."""
        return (_cosines(vectors) - example.targets).square().sum()

    def apart(self, student: Vectors, teacher: Vectors, temperature: float) -> torch.Tensor:
        """The summed square of the student's cosine less the teacher's; there is nothing to soften."""
        return (_cosines(student) - _cosines(teacher)).square().sum()


def _cosines(vectors: Vectors) -> torch.Tensor:
    first, second = vectors
    return (first * second).sum(-1)
