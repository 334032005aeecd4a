"""The objective's contract: ``corrupt(batch, rng) → (inputs, targets)`` and ``loss(model, …)``.

A loss is handed over as a sum and a count, never as a mean, so that the loop normalises by the targets of the whole
step however the step was cut into pieces. Where a loss has several terms, or compares rows with one another, each piece
has to know the step's other pieces: :func:`together` tells it.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

    Batch = Mapping[str, torch.Tensor]

IGNORED = -100
"""Target value that no loss counts (the field's usual mark)."""
MAIN = "words"
"""Name of a loss's first term, whatever the others are."""


@dataclass(frozen=True, kw_only=True)
class Corrupted:
    """What the model reads, and what it is asked for.

    Attributes:
        inputs: keyword arguments of the model.
        targets: int64, :data:`IGNORED` where nothing is asked.
        beside: what else the loss reads, a row for each row of the inputs.
        counts: how many targets each further term of the loss has.
        whole: the same of the whole step, and its targets under :data:`MAIN`; ``None`` where this is the whole.
    """

    inputs: Mapping[str, Any]
    targets: torch.Tensor
    beside: Mapping[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    whole: Mapping[str, int] | None = None

    @property
    def count(self) -> int:
        """Targets that are asked for."""
        return int((self.targets != IGNORED).sum())


@dataclass(frozen=True, kw_only=True)
class LossSum:
    """Summed loss in nats and the number of targets behind it.

    Over a step, the sum of totals by the sum of counts is the loss: further terms are scaled to their share of that.

    Attributes:
        parts: what a report tells beside a loss of several terms, by name: a sum and its own count each.
    """

    total: torch.Tensor
    count: int
    parts: Mapping[str, tuple[torch.Tensor, int]] = dataclasses.field(default_factory=dict)


class Term(NamedTuple):
    """A further term of a loss: summed over its own targets, and its weight beside the main term's mean."""

    name: str
    total: torch.Tensor
    weight: float = 1.0


class Objective(ABC):
    """One training task.

    Attributes:
        name: its kind.
        requires: the heads that a model must carry, the one that answers first.
        terms: names of the loss's further terms.
    """

    name: str
    requires: tuple[str, ...]
    terms: tuple[str, ...] = ()

    @abstractmethod
    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Make inputs and targets; all randomness comes from ``rng``."""

    @abstractmethod
    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """Run the model and sum the loss over the targets."""

    def networks(self, model: torch.nn.Module) -> Mapping[str, torch.nn.Module]:
        """The networks beside ``model``, by name, joined to what they share with it; the same ones at each call."""
        return {}

    def across(self, model: torch.nn.Module, examples: Sequence[Corrupted]) -> list[Corrupted]:
        """The pieces of a step, each told what its loss needs of the others."""
        return list(examples)

    def settle(self, model: torch.nn.Module) -> None:
        """Bring ``model`` up to date with what is learned elsewhere; after each step."""
        return


def core(model: torch.nn.Module) -> Any:
    """The model itself, inside what several processes wrap it in."""
    return getattr(model, "module", model)


def together(
    objective: Objective,
    model: torch.nn.Module,
    examples: Sequence[Corrupted],
    add: Callable[[float], float] = float,
) -> list[Corrupted]:
    """The pieces of one step, each told of the whole; then each may be scored and forgotten in turn.

    Args:
        examples: every piece that this process scores.
        add: sums a number over all processes.
    """
    if objective.terms:
        counted = [{MAIN: example.count, **example.counts} for example in examples]
        names = (MAIN, *objective.terms)
        whole = {name: int(add(sum(one.get(name, 0) for one in counted))) for name in names}
        examples = [dataclasses.replace(example, whole=whole) for example in examples]
    return objective.across(model, examples)


def joined(example: Corrupted, main: torch.Tensor, *terms: Term) -> LossSum:
    """The loss of one piece of a step: its main sum, and each further sum by the whole step's counts.

    So Σ totals / Σ counts is main mean + Σ weight · mean of each term, however the step was cut.
    """
    here = {MAIN: example.count, **example.counts}
    whole = example.whole or here
    total = main
    for term in terms:
        total = total + term.weight * max(1, whole[MAIN]) / max(1, whole[term.name]) * term.total
    sums = {MAIN: main, **{term.name: term.total for term in terms}} if terms else {}
    return LossSum(
        total=total, count=example.count, parts={name: (one.detach(), here[name]) for name, one in sums.items()}
    )
