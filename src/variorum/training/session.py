"""A run put together in memory from its plan and its corpus: model, objective, feed, trainer, held-out batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from variorum.errors import NotFound, UsageError
from variorum.text import Tokenizer, load_tokenizer
from variorum.training.beginning import take
from variorum.training.evaluate import Score, by_frequency, held_out
from variorum.training.feed import PLAIN, Dress, Feed, Phase
from variorum.training.formats import Rows, Shape, cut
from variorum.training.loop import Compute, Trainer
from variorum.training.recipes import Settled
from variorum.training.rundir import DATA, Plan
from variorum.training.shards import TOKENIZER, Corpus, read
from variorum.training.world import ALONE, World

if TYPE_CHECKING:
    from variorum.model import Model
    from variorum.objectives.base import Batch, Objective

HELD_ROWS, HELD_BATCH, FEWEST_BATCHES = 256, 8, 8
"""Held-out rows that an evaluation reads at most, how many are scored at a time, and in how many batches at least."""
TRIED_ONE_IN, TRIED_TOKENS = 10, 2**24
"""Of training texts that are split once more, one in so many is held out; about so many tokens are read at most."""
READ_STEPS = 100
"""Steps whose words are counted."""
UNREADABLE = ("text_to_text", "contrastive", "translation_lm", "image_classification", "distillation")
"""Objectives that running text alone does not feed: they need labels, pairs, images or a teacher."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """A run in memory."""

    model: Model
    objective: Objective
    feed: Feed
    trainer: Trainer
    held: list[Batch]
    seed: int

    def score(self) -> Score | None:
        """The held-out loss, which every process computes; ``None`` where nothing is held out."""
        if not self.held:
            return None
        trainer = self.trainer
        return held_out(trainer.loss, self.objective, self.held, seed=self.seed, device=trainer.compute.device)

    def guessed(self) -> float:
        """The same loss, of the words alone, of one who knows only how often they occur."""
        known = (piece for step in range(READ_STEPS) for piece in self.feed(step))
        return by_frequency(self.objective, known, self.held, seed=self.seed)


Sides = Callable[[Path], tuple[Corpus, Corpus]]
"""From the folder of a run to the texts that train it and those held out."""


def both(folder: Path) -> tuple[Corpus, Corpus]:
    """The two sides of the corpus, as it was split."""
    return read(folder / DATA, "train"), read(folder / DATA, "validation")


def within_training(folder: Path) -> tuple[Corpus, Corpus]:
    """Training texts alone, split once more, so that what is settled on them has not seen what is held out.

    Raises:
        UsageError: there are too few documents.
    """
    corpus = read(folder / DATA, "train")
    chosen = np.arange(0, corpus.documents, max(1, corpus.tokens // TRIED_TOKENS))
    if len(chosen) < TRIED_ONE_IN:
        raise UsageError(f"{len(chosen)} documents are too few to be split again", remedy="cut the texts finer")
    held = np.arange(len(chosen)) % TRIED_ONE_IN == TRIED_ONE_IN // 2
    return corpus.some(chosen[~held]), corpus.some(chosen[held])


def assemble(
    plan: Plan, folder: Path, world: World = ALONE, *, sides: Sides = both, judged_length: int = 0
) -> Session:  # fmt: skip
    """Everything in its first state, trained by ``world`` together on the texts in ``folder``.

    Args:
        judged_length: tokens of a held-out row; those of a training row if 0.

    Raises:
        UsageError: the architecture does not allow the objective, there is too little text, or a step's rows cannot be
            shared.
    """
    from variorum.builder import build
    from variorum.objectives.making import objective_for, segments_of
    from variorum.objectives.symbols import Symbols

    tokenizer = load_tokenizer(folder / DATA / TOKENIZER)
    spec = plan.spec
    if spec.objective.kind in UNREADABLE:
        raise UsageError(
            f"{spec.objective.kind} does not learn from running text", where=spec.name,
            remedy="change it with --set objective.kind=…",
        )  # fmt: skip
    objective = objective_for(spec, Symbols.of(tokenizer, spec.architecture.vocab), seed=plan.seed)
    model = build(spec, head=objective.requires, seed=plan.seed)
    take(model, folder)
    model = model.to(world.device)
    model.tokenizer = tokenizer
    cutter = _Cutter(objective, tokenizer, plan.settled, bool(segments_of(spec)), world.size)
    texts, apart = sides(folder)
    feed = Feed(
        phases=tuple(cutter.phases(texts, plan.steps)), dress=cutter.dress, seed=plan.seed,
    )  # fmt: skip
    trainer = Trainer(
        model, objective, feed, plan.settled.optimisation(plan.steps), seed=plan.seed,
        compute=Compute(device=world.device, precision=plan.precision, recompute=plan.recompute), world=world,  # type: ignore[arg-type]
    )  # fmt: skip
    held = cutter.held(apart, judged_length or plan.settled.length)
    return Session(model=model, objective=objective, feed=feed, trainer=trainer, held=held, seed=plan.seed)


@dataclass(frozen=True)
class _Cutter:
    """How an objective wants its text."""

    objective: Objective
    tokenizer: Tokenizer
    settled: Settled
    segments: bool
    processes: int

    @property
    def dress(self) -> Dress:
        """What rows wear: nothing around windows of a stream."""
        streamed = self.settled.format == "stream"
        wrapper = PLAIN if streamed else self.tokenizer.wrapper
        return Dress(wrapper=wrapper, pad_id=self.tokenizer.pad_id or 0, segments=self.segments and not streamed)

    def rows(self, corpus: Corpus, length: int) -> Rows:
        """Rows that become ``length`` tokens for the model."""
        ends = (self.tokenizer.eos_id, self.tokenizer.sep_id, self.tokenizer.bos_id)
        end = next((id for id in ends if id is not None), None)
        if end is None:
            raise NotFound("the tokenizer has no token to end a document with", remedy="train one of a family that has")
        texts = 2 if self.settled.format.endswith("_pair") else 1
        wrapper = 0 if self.settled.format == "stream" else self.tokenizer.wrapper.added(texts)
        raw = getattr(self.objective, "raw_length", None)  # span corruption shortens what it reads
        length = length if raw is None else raw(length)
        ahead = int(self.objective.name == "causal_lm")
        return cut(corpus, self.settled.format, Shape(length=length, wrapper=wrapper, end=end, ahead=ahead))

    def phases(self, corpus: Corpus, steps: int) -> list[Phase]:
        """Short rows first, where the recipe says so; a step reads about as many tokens throughout."""
        settled, border = self.settled, round(self.settled.early * steps)

        def phase(begin: int, end: int, length: int) -> Phase:
            more = settled.length // length
            rows = self.rows(corpus, length)
            batch, micro = more * settled.batch, more * settled.micro
            return Phase(begin=begin, end=end, rows=rows, batch=batch, micro=shared(batch, micro, self.processes))

        if not border or settled.early_length == settled.length:
            return [phase(0, steps, settled.length)]
        return [phase(0, border, settled.early_length), phase(border, steps, settled.length)]

    def held(self, corpus: Corpus, length: int) -> list[Batch]:
        """Held-out batches, spread evenly over all documents."""
        if not corpus.documents:
            return []
        rows = self.rows(corpus, length)
        count = min(len(rows), max(FEWEST_BATCHES, HELD_ROWS * self.settled.length // length))
        size = max(1, min(HELD_BATCH, count // FEWEST_BATCHES))
        numbers = [i * len(rows) // count for i in range(count)]
        if rows.texts == 2:  # a false pair is made of two documents, so neighbours are not kept together
            batches = [numbers[i :: count // size] for i in range(count // size)]
        else:
            batches = [numbers[i : i + size] for i in range(0, count, size)]
        return [self.dress.batch(rows, batch) for batch in batches]


def shared(rows: int, micro: int, processes: int) -> int:
    """Rows of a micro-batch: ``micro``, or as many fewer as it takes for each process to have equally many of a step.

    Raises:
        UsageError: there is no such cut.
    """
    pieces = math.ceil(rows / micro)
    if pieces % processes == 0:
        return micro
    for count in range(math.ceil(pieces / processes) * processes, rows + 1, processes):
        size = math.ceil(rows / count)
        if math.ceil(rows / size) == count:
            return size
    raise UsageError(
        f"{rows} rows of a step cannot be shared by {processes} processes",
        remedy=f"give a --batch of {processes} or more",
    )
