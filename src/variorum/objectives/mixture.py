"""Several tasks in one model: each batch is of one task, and all are asked through the same head."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING

from variorum.errors import UsageError
from variorum.objectives.base import Corrupted, LossSum, Objective

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch

TASK = "task"


class Mixture(Objective):
    """Objectives by name, and how often each is drawn. A batch says by ``task``, one number, which it is for.

    Raises:
        UsageError: tasks that need other heads, or losses of several terms.
    """

    name = "mixture"

    def __init__(self, tasks: Mapping[str, Objective], rates: Mapping[str, float]) -> None:
        if not tasks or tasks.keys() != rates.keys():
            raise UsageError("a mixture needs a rate for each of its tasks", remedy="name the same tasks in both")
        heads = {task.requires for task in tasks.values()}
        if len(heads) > 1 or any(task.terms for task in tasks.values()):
            raise UsageError(
                "tasks of one mixture answer through one head, and each by one loss",
                remedy="say them all as text, with one seq2seq_lm head",
            )
        (self.requires,) = heads
        self.names, self.tasks = tuple(tasks), tuple(tasks.values())
        self.edges = list(accumulate(rates[name] for name in self.names))

    def draw(self, rng: torch.Generator) -> str:
        """The task of the next batch, by the rates."""
        import torch

        at = float(torch.rand((), generator=rng)) * self.edges[-1]
        return self.names[min(bisect.bisect_right(self.edges, at), len(self.names) - 1)]

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """As the batch's task does."""
        task = int(batch[TASK])
        made = self.tasks[task].corrupt({name: value for name, value in batch.items() if name != TASK}, rng)
        return dataclasses.replace(made, beside={**made.beside, TASK: batch[TASK]})

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """As the example's task does; every target of a step counts alike, whatever its task."""
        return self.tasks[int(example.beside[TASK])].loss(model, example)


def mixing_rates(sizes: Mapping[str, int], *, limit: int | None = None, temperature: float = 1.0) -> dict[str, float]:
    """How often each task is drawn: by its size up to ``limit``, to the power 1 / T (Raffel et al. 2019, 3.5.2).

    Args:
        sizes: examples of each task.
        limit: the size that a task is taken for at most, so that a huge one does not crowd out the rest.
        temperature: 1 is in proportion; the higher, the more alike.
    """
    capped = {name: min(size, limit or size) ** (1 / temperature) for name, size in sizes.items()}
    total = sum(capped.values())
    return {name: size / total for name, size in capped.items()}
