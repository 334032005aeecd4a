"""A published recipe scaled to a run here: what every number of the run is, and where it comes from.

A recipe fixes the optimiser, the shape of the schedule, the share of warm-up, how rows are cut and how lengths grow.
What depends on size is scaled: the peak learning rate by the published width over this one, batch and length down to
what one machine does. Adafactor's rate is a share of the weights' own size, and stays. A model that was made smaller
reads fewer rows a step: in minutes of training, more steps are worth more than larger ones. Whatever the user states
comes first.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from variorum.spec.model import Model
from variorum.training.formats import Format
from variorum.training.optimiser import Decay, Kind, Optimisation
from variorum.training.wishes import NO_WISHES, Wishes

BATCH, FEW, LENGTH, RATE = 32, 8, 128, 5e-4
"""Rows of a step at most, those of a model made smaller, tokens of a row at most, and the rate where none is published,
unless the user says otherwise."""
WARMUP, MOST_WARMUP, ANY_NORM = 0.05, 0.1, 1e9
BY_OBJECTIVE: dict[str, Format] = {"causal_lm": "stream", "span_corruption": "stream", "bidirectional_lm": "stream"}


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What a run does but for its number of steps; ``why`` says of each value where it comes from.

    Attributes:
        early: share of the steps that read rows of ``early_length``.
        warmup: share of the steps.
    """

    batch: int
    micro: int
    length: int
    early: float
    early_length: int
    format: Format
    kind: Kind
    rate: float
    warmup: float
    decay: Decay
    floor: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    clip: float
    why: dict[str, str] = dataclasses.field(default_factory=dict, compare=False)

    def optimisation(self, steps: int) -> Optimisation:
        """What the optimiser of a run of so many steps is told."""
        warmup = min(max(0, steps - 1), round(self.warmup * steps))
        return Optimisation(
            steps=steps, rate=self.rate, warmup=warmup, decay=self.decay, floor=self.floor, betas=self.betas,
            eps=self.eps, weight_decay=self.weight_decay, clip=self.clip or ANY_NORM, kind=self.kind,
        )  # fmt: skip


def settle(model: Model, wishes: Wishes = NO_WISHES, *, published_width: int | None = None) -> Settled:
    """The numbers of a run of ``model``.

    Args:
        published_width: of the model that the recipe is for, where ``model`` is another size of it.
    """
    recipe, why = model.recipe, {}
    chosen: dict[str, Any] = {}

    def choose(
        name: str, wish: object, published: object, usual: object, told: object = None, *, part: bool = False
    ) -> None:
        """The first of what is wished, published and usual that is there.

        ``told`` is what was published in words; a ``part`` of it, which says nothing without the rest, is told too.
        """
        known = published is not None
        chosen[name] = wish if wish is not None else published if known else usual
        otherwise = f"usual; {model.name}: {told}" if part else "usual"
        why[name] = "as asked" if wish is not None else f"{model.name}: {told or published}" if known else otherwise

    scale = (published_width or model.architecture.width) / model.architecture.width
    most = BATCH if scale <= 1 else FEW
    batch = None if recipe.batch is None else min(recipe.batch, most)
    choose("batch", wishes.batch, batch, most, f"{recipe.batch:,} rows, at most {most} here" if batch else None)
    length = None if recipe.length is None else min(recipe.length, LENGTH)
    choose("length", wishes.length, length, LENGTH, f"{recipe.length}, at most {LENGTH} here")
    times = 1.0 if recipe.optimiser == "adafactor" else scale
    rate = None if recipe.learning_rate is None else recipe.learning_rate * times
    choose("rate", wishes.rate, rate, RATE, f"{recipe.learning_rate:g}, × {times:g} for the width" if rate else None)
    share = min(recipe.warmup / recipe.steps, MOST_WARMUP) if recipe.warmup and recipe.steps else None
    warmup = f"{recipe.warmup} of {recipe.steps} steps"
    choose("warmup", wishes.warmup, share, WARMUP, warmup, part=bool(recipe.warmup or recipe.steps))
    choose("decay", wishes.schedule, recipe.schedule, "linear")
    substitute = "adamw" if recipe.optimiser == "lamb" else recipe.optimiser
    choose("kind", wishes.optimiser, substitute, "adamw", recipe.optimiser)
    choose("weight_decay", wishes.weight_decay, recipe.weight_decay, 0.01)
    # Rows of two texts belong to an objective that compares them, whatever the recipe was published with.
    fits = (recipe.format or "").endswith("_pair") == (model.objective.pair is not None)
    choose("format", wishes.sequence_format, recipe.format if fits else None, _usual_format(model))
    choose("clip", wishes.clip, recipe.clip, 1.0, "none" if recipe.clip == 0 else None)
    choose("floor", None, recipe.floor, 0.0)
    choose("betas", None, recipe.betas, (0.9, 0.999))
    choose("eps", None, recipe.eps, 1e-8)
    chosen["micro"] = min(wishes.micro_batch or chosen["batch"], chosen["batch"])
    early, chosen["early_length"] = _early(model, chosen["length"])
    shorter = f"{recipe.early_share} of the steps at {recipe.early_length}"
    choose("early", None, early, 0.0, shorter, part=bool(recipe.early_share or recipe.early_length))
    return Settled(**chosen, why=why)


def _early(model: Model, length: int) -> tuple[float | None, int]:
    """The first part of a run, if it has one, and its shorter rows, in the proportion of the recipe."""
    recipe = model.recipe
    if recipe.early_length is None or recipe.early_share is None or recipe.length is None:
        return None, length
    return recipe.early_share, min(length, max(8, length * recipe.early_length // recipe.length))


def _usual_format(model: Model) -> Format:
    if model.objective.pair is not None:
        return "segment_pair"
    return BY_OBJECTIVE.get(model.objective.kind, "full_sentences")
