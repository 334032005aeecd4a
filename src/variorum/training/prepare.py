"""From what was asked to a plan: the vocabulary, the corpus as shards, the spec fitted to both, the measured steps.

A prepared folder is a run that has not begun. Killed on the way and asked again, it starts over with what is whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from variorum.checkpoint import manifest
from variorum.errors import OverBudget, UsageError, VariorumError
from variorum.inference.peak import ROOM, peak_bytes
from variorum.spec.model import Model as Spec
from variorum.spec.rules import check
from variorum.spec.small import scale_named, scaled, worded
from variorum.text import Tokenizer, load_tokenizer
from variorum.text.stream import documents
from variorum.training import beginning, shards
from variorum.training.budget import Budget, budget_of
from variorum.training.progress import Progress
from variorum.training.recipes import Settled, settle
from variorum.training.run import deterministic
from variorum.training.rundir import DATA, Asked, Plan, machine
from variorum.training.session import Session, assemble
from variorum.training.snapshots import Snapshots
from variorum.training.world import ALONE, World

Say = Callable[[str], None]
T = TypeVar("T")
PROBED, PROBE_SECONDS, FEWEST = 12, 8.0, 3
"""Real steps that a plan is measured from at most, how long that may take, and the fewest."""
SLOWER, FASTER = 1.3, 0.85
"""Ends of the time band over the measured pace: a machine that does other things too."""
LOOKS, ASIDE = 20, 0.2
"""Evaluations of a run, and snapshots, unless the user says otherwise; and the share of its time that they may take."""
SNAPSHOTS_FREE = 2.2
"""Free space wanted before the first step, in snapshots."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a few real steps cost here.

    Attributes:
        step_seconds: of each phase of the run. step_tokens: tokens that a step reads, the same.
        start_seconds: until the first step. score_seconds: of one evaluation. save_seconds: of one snapshot.
        snapshot: bytes of one. peak: resident bytes at their height, as the run will reach it.
    """

    step_seconds: tuple[float, ...]
    step_tokens: tuple[float, ...]
    start_seconds: float
    score_seconds: float
    save_seconds: float
    snapshot: int
    peak: int
    parameters: int


def fitted(asked: Asked, tokenizer: Tokenizer, settled: Settled) -> Spec:
    """The spec that is trained: scaled if asked, with this vocabulary and length.

    Raises:
        UsageError: what comes out breaks a rule.
    """
    spec, length = reference(asked), settled.length
    if beginning.source(asked.model) is None:
        spec = worded(spec, vocab=tokenizer.vocab_size, pad_id=tokenizer.pad_id, length=length)
    else:
        beginning.check_length(spec, length)
    for problem in check(spec):
        raise problem.error()
    return spec


def reference(asked: Asked) -> Spec:
    """The spec that was named, or that of the weights that were, changed and scaled as asked.

    Raises:
        UsageError: weights cannot be scaled, and have a vocabulary.
    """
    spec = _named_spec(asked)
    if beginning.source(asked.model) is not None and (asked.scale or asked.tokenizer):
        what, flag = ("a size", "--scale") if asked.scale else ("a vocabulary", "--tokenizer")
        raise UsageError(f"weights have {what} of their own", where=asked.model, remedy=f"leave {flag} out")
    return scaled(spec, scale_named(asked.scale)) if asked.scale else spec


def _named_spec(asked: Asked) -> Spec:
    from variorum.checkpoint.source import read_spec
    from variorum.family.reference import architecture

    place = beginning.source(asked.model)
    return architecture(asked.model if place is None else read_spec(place), set=asked.set)


def settled_for(asked: Asked) -> Settled:
    """The numbers of the run that was asked for."""
    published = _named_spec(asked).architecture.width
    return settle(reference(asked), asked.wishes, published_width=published)


def vocabulary(asked: Asked, split: shards.Split) -> Tokenizer:
    """The tokenizer that was named, or one learned from the training side in the way of the spec's family."""
    if (place := beginning.source(asked.model)) is not None:
        return load_tokenizer(place)
    if asked.tokenizer:
        return _named(asked.tokenizer)
    from variorum.text.like import train_like

    return train_like(reference(asked), _training_texts(asked, split), asked.vocab)


def _training_texts(asked: Asked, split: shards.Split) -> Iterator[str]:
    return (text for text in documents(asked.sources) if split.side(text) == "train")


def _named(name: str) -> Tokenizer:
    from variorum.hub import locate, spec_named
    from variorum.text import byte_tokenizer

    spec = spec_named(name)
    if spec is not None and spec.tokenizer.kind == "bytes":
        return byte_tokenizer()
    return load_tokenizer(locate(name))


def prepare(
    asked: Asked, folder: Path, *, workers: int, threads: int, say: Say, world: World = ALONE
) -> tuple[Plan, Measured]:  # fmt: skip
    """Build the corpus, fit the spec, measure some steps, and settle the number of steps.

    Raises:
        OverBudget: the disk is too small. What reading texts and building the model raise.
    """
    import torch

    torch.set_num_threads(threads)
    budget, settled = budget_of(asked.budget), settled_for(asked)
    world.first(lambda: corpus(asked, folder, workers=workers, say=say))
    tokenizer = load_tokenizer(folder / DATA / shards.TOKENIZER)
    spec = fitted(asked, tokenizer, settled)
    plan = Plan(
        spec=spec, settled=settled, steps=1000, every=1, saves=1, patience=0, seed=asked.wishes.seed,
        precision=asked.wishes.precision, recompute=asked.wishes.recompute, machine=machine(threads, world),
    )  # fmt: skip
    world.first(lambda: _begin(asked, spec, tokenizer, folder))
    measured = measure(plan, folder, world)
    looks = _looks(budget, measured)
    steps = _steps(budget, settled, measured, looks)
    every = math.ceil(steps / looks)
    return dataclasses.replace(plan, steps=steps, every=every, saves=every), measured


def _begin(asked: Asked, spec: Spec, tokenizer: Tokenizer, folder: Path) -> None:
    """Bring the weights that a run begins with into its folder."""
    from variorum.objectives.making import objective_for
    from variorum.objectives.symbols import Symbols

    if (place := beginning.source(asked.model)) is not None:
        objective = objective_for(spec, Symbols.of(tokenizer, spec.architecture.vocab))
        beginning.keep(place, spec, objective.requires, folder)


def corpus(asked: Asked, folder: Path, *, workers: int, say: Say) -> None:
    """The shards, unless they are there and whole."""
    place = folder / DATA
    wanted = [source.fingerprint() for source in asked.sources]
    if place.exists():
        try:
            if manifest.verify(place) and shards.facts_of(place)["sources"] == wanted:
                return
        except VariorumError as error:
            say(f"building the corpus again: {error}")
    say("reading the texts")
    split = shards.survey(asked.sources, asked.validation)
    tokenizer = vocabulary(asked, split)
    progress = Progress("characters", split.characters)
    shards.build(
        place, asked.sources, tokenizer, split, workers=workers, report=lambda done, total: progress.at(done)
    )  # fmt: skip
    progress.close()


def measure(plan: Plan, folder: Path, world: World = ALONE) -> Measured:
    """Do a little of all that the run does: a few steps of every phase, an evaluation, a snapshot; none of it stays.

    Several processes measure together, and tell the time and the memory of the one that needs most.
    """
    start, session = _timed(lambda: assemble(plan, folder, world))
    trainer, place = session.trainer, tempfile.TemporaryDirectory
    seconds, tokens = [], []
    with deterministic(), contextlib.ExitStack() as stack:
        aside = world.first(lambda: stack.enter_context(place(prefix=f".{DATA}.tmp-", dir=folder)))
        for phase in session.feed.phases:
            trainer.step = phase.begin
            seconds.append(_pace(trainer.advance, world))
            tokens.append(_read(session, phase.begin))
        score, _ = _timed(session.score)
        save, _ = _timed(lambda: Snapshots(Path(aside), world=world).save(trainer.state(), {}))
    return Measured(
        step_seconds=tuple(seconds), step_tokens=tuple(tokens), start_seconds=world.most(start),
        score_seconds=world.most(score), save_seconds=world.most(save),
        snapshot=sum(t.numel() * t.element_size() for t in trainer.state().tensors.values()),
        peak=int(ROOM * world.most(peak_bytes())), parameters=sum(p.numel() for p in session.model.parameters()),
    )  # fmt: skip


def _pace(step: Callable[[], object], world: World) -> float:
    """Seconds of a usual step; the first, which makes room for all others, is not one."""
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < FEWEST or (len(times) < PROBED and world.most(time.perf_counter() - begun) < PROBE_SECONDS):
        times.append(_timed(step)[0])
    return world.most(statistics.median(times[1:]))


def _timed(job: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    made = job()
    return time.perf_counter() - start, made


def _read(session: Session, step: int) -> float:
    """Tokens that the model is given in a step."""
    pieces = session.feed(step)
    names = ("input_ids", "first", "second")
    masks = {"input_ids": "attention_mask", "first": "first_mask", "second": "second_mask"}
    found = 0
    for piece in pieces:
        for name in names:
            if name in piece:
                mask = piece.get(masks[name])
                found += piece[name].numel() if mask is None else int(mask.sum())
    return float(found)


def _looks(budget: Budget, measured: Measured) -> int:
    """How often a run is evaluated and saved: less often where that would take much of its time."""
    if budget.unit != "seconds":
        return LOOKS
    return min(LOOKS, max(1, int(ASIDE * budget.amount / (measured.score_seconds + measured.save_seconds))))


def _steps(budget: Budget, settled: Settled, measured: Measured, looks: int) -> int:
    """The budget in steps; time leaves room for evaluations and snapshots."""
    shares = (settled.early, 1 - settled.early) if len(measured.step_seconds) == 2 else (1.0,)
    step = sum(share * one for share, one in zip(shares, measured.step_seconds, strict=True))
    tokens = sum(share * one for share, one in zip(shares, measured.step_tokens, strict=True))
    beside = _beside(measured, looks, looks) if budget.unit == "seconds" else 0.0
    left = max(budget.amount - beside, budget.amount / 4)
    return Budget(left, budget.unit).steps(tokens, step)


def _beside(measured: Measured, scores: int, saves: int) -> float:
    """Seconds of a run outside of its steps; the trained model is written about as a snapshot is."""
    return measured.start_seconds + scores * measured.score_seconds + (saves + 1) * measured.save_seconds


def duration(plan: Plan, measured: Measured) -> tuple[float, float]:
    """Seconds that the run takes, low and high."""
    border = round(plan.settled.early * plan.steps) if len(measured.step_seconds) == 2 else 0
    counts = (border, plan.steps - border) if len(measured.step_seconds) == 2 else (plan.steps,)
    steps = sum(count * one for count, one in zip(counts, measured.step_seconds, strict=True))
    whole = steps + _beside(measured, math.ceil(plan.steps / plan.every), math.ceil(plan.steps / plan.saves))
    return FASTER * whole, SLOWER * whole


def check_space(folder: Path, measured: Measured, keep: int) -> int:
    """Bytes that the run will write.

    Raises:
        OverBudget: they are not free.
    """
    import shutil

    free = shutil.disk_usage(folder).free
    wanted = int(max(SNAPSHOTS_FREE, keep + 1.2) * measured.snapshot)
    if free < wanted:
        raise OverBudget(
            f"{wanted:,} bytes are needed for {keep} snapshots and the next, {free:,} are free", where=str(folder),
            remedy="free space, or choose another --out",
        )  # fmt: skip
    return wanted


def cores(world: World = ALONE) -> int:
    """Cores that this process may use, its share of them where ``torchrun`` started several on this machine."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, here // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))) if world.size > 1 else here
