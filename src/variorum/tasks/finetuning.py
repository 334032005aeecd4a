"""The engine under every task: a model that is there learns from examples, and is kept as it was at its best.

It knows neither texts nor labels: a task gives it examples, the way to batch them, the objective that reads the batch,
and how to judge a model on what was held out. The step is :class:`variorum.training.loop.Trainer`'s.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal, Protocol

from variorum.errors import UsageError
from variorum.tasks.adapt import Adapt, Full
from variorum.tasks.bookmark import Bookmark, Place, fingerprint
from variorum.tasks.examples import Collate, Example, by_tokens

if TYPE_CHECKING:
    import torch

    from variorum.face import Model
    from variorum.objectives.base import Batch, Objective
    from variorum.training.optimiser import Decay, Optimisation

Judge = Callable[["Model"], float]
"""How good a model is on what was held out; more is better."""
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """How a model is fine-tuned.

    Attributes:
        epochs: times that every example is read.
        batch_size: examples of a step.
        learning_rate: at its peak.
        warmup: share of the steps over which it rises.
        schedule: its shape afterwards.
        weight_decay: of matrices.
        patience: end after so many epochs without a better judgement; 0 for never.
        adapt: what learns.
        seed: of the order of examples and of dropout.
        device: where the model is.
        precision: of the products; weights stay in float32.
        tokens: padded tokens in memory at a time; a step that has more is cut, and its loss is that of the whole step.
        checkpoints: a folder for a snapshot after each epoch, from which the same fine-tuning goes on; none if empty.
    """

    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 5e-5
    warmup: float = 0.1
    schedule: Decay = "linear"
    weight_decay: float = 0.01
    patience: int = 0
    adapt: Adapt = field(default_factory=Full)
    seed: int = 0
    device: str = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    tokens: int = 8192
    checkpoints: str = ""

    def __post_init__(self) -> None:
        least = {"epochs": 1, "batch_size": 1, "patience": 0, "tokens": 1}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise UsageError(
                    f"{name} is {getattr(self, name)}", where="fine-tuning", remedy=f"give {value} or more"
                )
        if not self.learning_rate > 0 or not 0 <= self.warmup < 1:
            raise UsageError(
                f"a learning rate of {self.learning_rate} with a warm-up of {self.warmup} of the steps",
                where="fine-tuning", remedy="give a rate above 0, and a share below 1",
            )  # fmt: skip

    def steps(self, examples: int) -> int:
        """Optimiser steps of a whole run."""
        return self.epochs * -(-examples // self.batch_size)

    def optimisation(self, examples: int, factors: Mapping[str, float]) -> Optimisation:
        """What the optimiser is told."""
        from variorum.training.optimiser import Optimisation

        steps = self.steps(examples)
        return Optimisation(
            steps=steps, rate=self.learning_rate, warmup=min(round(self.warmup * steps), steps - 1),
            decay=self.schedule, floor=0.0, betas=(0.9, 0.999), weight_decay=self.weight_decay,
            factors={f"model/{name}": factor for name, factor in factors.items()},
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One reading of all examples: the mean loss of its steps, and the judgement after it, where there is a judge."""

    epoch: int
    steps: int
    loss: float
    score: float | None = None


@dataclass(frozen=True, kw_only=True)
class History:
    """What happened.

    Attributes:
        epochs: in order.
        best: the number of the epoch whose weights were kept, from 1.
        seconds: that it took, judging included.
        examples: read in each epoch.
        learned: parameters that could change.
        pace: seconds of a usual step; 0 where nobody took them.
    """

    epochs: tuple[Epoch, ...]
    best: int
    seconds: float
    examples: int
    learned: int
    pace: float = 0.0

    @property
    def score(self) -> float | None:
        """The judgement on the weights that were kept."""
        return self.epochs[self.best - 1].score


class Watch(Protocol):
    """Whoever follows a run: :class:`variorum.training.progress.Progress`."""

    def at(self, done: int, note: str = "") -> None: ...


def fine_tune(
    model: Model, objective: Objective, examples: Sequence[Example], collate: Collate, how: FineTuning, *,
    judge: Judge | None = None, watch: Watch | None = None, say: Say | None = None,
) -> History:  # fmt: skip
    """Train ``model`` in place on ``examples``; it comes back in ``eval()``, as it was at its best epoch.

    Args:
        objective: reads the batches that ``collate`` makes.
        judge: scores the model after each epoch; without one the last epoch is kept.
        watch: is told of every step.
        say: is told of every epoch.

    Raises:
        UsageError: there are no examples.
        RunFailed: the loss or a gradient is not finite.
    """
    from variorum.training.loop import Compute, Trainer

    if not examples:
        raise UsageError("there is nothing to learn from", where="fine-tuning")
    begun = time.perf_counter()
    how.adapt.prepare(model, seed=how.seed)
    settings = how.optimisation(len(examples), how.adapt.groups(model))
    feed = _Feed(examples, collate, how)
    trainer = Trainer(
        model, objective, feed, settings, seed=how.seed, compute=Compute(device=how.device, precision=how.precision)
    )
    keeper, epochs, paces = _Keeper(model), list[Epoch](), [0.0]
    bookmark = _bookmark(how, examples, say)
    if bookmark is not None and (place := bookmark.open(trainer)) is not None:
        epochs = [Epoch(**one) for one in place.facts["epochs"]]
        keeper.take(place.best, epochs)
    while len(epochs) < how.epochs and not keeper.waited(len(epochs), how.patience):
        number, losses = len(epochs) + 1, []
        for _ in range(feed.each):
            begin = time.perf_counter()
            losses.append(trainer.advance().loss)
            paces.append(time.perf_counter() - begin)
            if watch is not None:
                watch.at(trainer.step, f"loss {losses[-1]:.4f}")
        model.eval()
        score = None if judge is None else judge(model)
        epochs.append(Epoch(epoch=number, steps=trainer.step, loss=sum(losses) / len(losses), score=score))
        if say is not None:
            say(_told(epochs[-1], how.epochs))
        keeper.see(number, score)
        if bookmark is not None:
            bookmark.put(trainer, Place(keeper.values, {"epochs": [dataclasses.asdict(one) for one in epochs]}))
    keeper.put_back()
    learned = sum(p.numel() for p in trainer.named.values())
    how.adapt.finish(model)
    return History(epochs=tuple(epochs), best=keeper.best, seconds=time.perf_counter() - begun,
                   examples=len(examples), learned=learned, pace=median(paces[1:] or paces))  # fmt: skip


def _bookmark(how: FineTuning, examples: Sequence[Example], say: Say | None) -> Bookmark | None:
    settings = dataclasses.replace(how, checkpoints="")
    return Bookmark(Path(how.checkpoints), fingerprint(settings, examples), say) if how.checkpoints else None


def _told(epoch: Epoch, of: int) -> str:
    judged = "" if epoch.score is None else f", held out {epoch.score:.4f}"
    return f"epoch {epoch.epoch} of {of}: loss {epoch.loss:.4f}{judged}"


class _Feed:
    """Step number → micro-batches: every example once in each epoch, in another order each time."""

    def __init__(self, examples: Sequence[Example], collate: Collate, how: FineTuning) -> None:
        self.examples, self.collate, self.how = examples, collate, how
        self.each = how.steps(len(examples)) // how.epochs

    def __call__(self, step: int) -> list[Batch]:
        from variorum.training.order import Shuffle

        epoch, place = divmod(step, self.each)
        begin, size = place * self.how.batch_size, self.how.batch_size
        rows = len(self.examples)
        numbers = Shuffle(rows=rows, seed=self.how.seed)(epoch * rows + begin, min(size, rows - begin)).tolist()
        return [self.collate(piece) for piece in by_tokens([self.examples[i] for i in numbers], self.how.tokens)]


class _Keeper:
    """The best epoch's weights, of what learns."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model, self.best, self.score = model, 0, float("-inf")
        self.values: dict[str, torch.Tensor] = {}

    def waited(self, epochs: int, patience: int) -> bool:
        """Whether after so many epochs no better one is waited for."""
        return bool(patience) and epochs - self.best >= patience

    def take(self, values: Mapping[str, torch.Tensor], epochs: Sequence[Epoch]) -> None:
        """Stand as after ``epochs``, whose best weights are given."""
        for one in epochs:
            self.see(one.epoch, one.score)
        self.values = dict(values)

    def see(self, epoch: int, score: float | None) -> None:
        if score is None:
            self.best = epoch
        elif score > self.score or not self.best:
            self.best, self.score = epoch, score
            self.values = {n: p.detach().clone() for n, p in self.model.named_parameters() if p.requires_grad}

    def put_back(self) -> None:
        import torch

        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if name in self.values:
                    parameter.copy_(self.values[name])
