"""A study of pretraining: arms learn from the same texts within one budget, and are judged on texts held out.

Arms differ in their specs alone. The vocabulary is the first arm's and learned once; its recipe is every arm's, unless
each is to have its own. What is compared has to be the same question: bits per byte where all arms give text a
probability, else the objective's loss, where the rules call it comparable.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from variorum.errors import UsageError, nearest
from variorum.spec import rules
from variorum.spec.model import Model
from variorum.spec.size import size
from variorum.study import labelled
from variorum.study.budgets import Budget
from variorum.study.cells import Cell, fingerprint
from variorum.study.design import Arm, Metric, Study
from variorum.study.labelled import Rows
from variorum.study.plan import FEWEST_STEPS
from variorum.study.session import ANY, Declared, Limits, Page, declared_looks
from variorum.study.statistics import Claim, looks_of
from variorum.text.stream import Source
from variorum.training.wishes import Wishes

BITS = Metric(name="held-out loss", unit="bits per byte", lower_is_better=True, by_item=True)
LOSS = Metric(name="held-out loss", unit="nats per target", lower_is_better=True, by_item=True)
CURVE_POINTS = FEWEST_STEPS
JOB, PROBED = "variorum.study.jobs:pretrain_cell", "variorum.study.jobs:probed_cell"
PROBE = {"epochs": 2, "learning_rate": 5e-4, "max_length": 64}
"""How a pretrained arm learns the labelled rows that it is judged on."""


@dataclass(frozen=True, kw_only=True)
class Texts:
    """What every arm reads.

    Attributes:
        sources: of the documents. validation: share of them that is held out, and judged on.
        tokenizer: a reference, or "" to learn ``vocab`` ids in the way of ``like``, a model's name.
    """

    sources: tuple[Source, ...]
    like: str
    validation: float = 0.05
    tokenizer: str = ""
    vocab: int = 2048


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A study as it is asked for.

    Attributes:
        claims: as they are written, "A beats B" or "A beats B by 0.02"; by default each arm beats ``against``.
        against: the arm before it, or the first one.
        recipes: "shared" trains every arm by the first one's recipe, "own" each by its own.
        left: what a walk left out, to be told.
        probe: labelled rows that every arm learns after its pretraining and is judged on, in place of its loss.
    """

    title: str
    question: str
    arms: tuple[Arm, ...]
    texts: Texts
    budget: Budget
    seeds: int = 5
    looks: tuple[int, ...] = ()
    claims: tuple[str, ...] = ()
    against: Literal["before", "first"] = "first"
    recipes: Literal["shared", "own"] = "shared"
    wishes: Wishes = Wishes()  # noqa: RUF009 - frozen
    left: tuple[str, ...] = ()
    probe: Rows | None = None


NAME = "pretraining"


def declare(
    wanted: Wanted, out: Path, *, limits: Limits = ANY, keep: bool = True, say: Callable[[str], None]
) -> Declared:
    """Fix arms, data, steps, claims and cells; texts are tokenised here, once.

    Raises:
        UsageError: arms that cannot be compared, a claim about no arm, too few seeds.
    """
    from variorum.text import load_tokenizer
    from variorum.training import shards
    from variorum.training.prepare import corpus
    from variorum.training.rundir import DATA, Asked

    looks, texts = looks_of(wanted.seeds, wanted.looks), wanted.texts
    metric = _metric(wanted, _trained(wanted, vocab=texts.vocab, pad_id=0))  # refused before a text is read
    asked = Asked(
        model=texts.like, set=(), scale="", sources=texts.sources, validation=texts.validation,
        tokenizer=texts.tokenizer, vocab=texts.vocab, budget="", wishes=wanted.wishes,
    )  # fmt: skip
    folder = out / "data" / fingerprint(dataclasses.asdict(texts))[:16]
    folder.mkdir(parents=True, exist_ok=True)
    corpus(asked, folder, workers=1, say=say)
    facts = shards.facts_of(folder / DATA)
    tokenizer = load_tokenizer(folder / DATA / shards.TOKENIZER)
    trained = _trained(wanted, vocab=tokenizer.vocab_size, pad_id=tokenizer.pad_id)
    seeds, claims = tuple(range(wanted.seeds)), _claims(wanted, metric)
    data = fingerprint([facts, (folder / DATA / shards.TOKENIZER).name])

    def made(looks: tuple[int, ...]) -> tuple[Study, tuple[Cell, ...]]:
        study = _study(wanted, trained, metric, claims, seeds, looks, facts)
        return study, tuple(_cell(wanted, one, seed, folder, data, metric) for seed in seeds for one in trained)

    study, cells = made(looks)
    before = declared_looks(out, cells, looks, keep=keep)
    if before != looks:
        study, cells = made(before)
    lead = f"Every figure is at this budget: {study.budget}, {wanted.seeds} seeds. More training may change any of it."
    page, probe = Page(title=wanted.title, lead=lead, colophon=_sources(texts)), wanted.probe
    return Declared(
        out=out, studies=(study,), cells=cells, page=page, steps=max(one.steps for one in trained), limits=limits,
        truths={} if probe is None else {NAME: probe.truth}, texts={} if probe is None else {NAME: probe.test},
    )  # fmt: skip


@dataclass(frozen=True)
class _Trained:
    """An arm with all that is settled of its training."""

    arm: Arm
    settled: Any
    steps: int
    wishes: Wishes


def _trained(wanted: Wanted, *, vocab: int, pad_id: int | None) -> list[_Trained]:
    from variorum.spec.small import worded
    from variorum.training.recipes import settle

    found: list[_Trained] = []
    for arm in wanted.arms:
        spec = _spec(arm)
        recipe = spec if wanted.recipes == "own" or not found else _spec(found[0].arm)
        settled = settle(recipe, wanted.wishes)
        if recipe is not spec:  # how rows are cut belongs to the objective
            own = settle(spec, wanted.wishes)
            settled = dataclasses.replace(settled, format=own.format, why=settled.why | {"format": own.why["format"]})
        spec = worded(spec, vocab=vocab, pad_id=pad_id, length=settled.length)
        spec = spec.set({"tokenizer": _spec(wanted.arms[0]).tokenizer})
        rules.require(spec, rules.BUILD)
        rows = settled.batch * settled.length
        cost = 3 * size(spec, head=_heads(spec), context=settled.length, batch=settled.batch).forward_flops
        steps = wanted.budget.steps(tokens=rows, flops=cost)
        if steps < FEWEST_STEPS:
            raise UsageError(f"{arm.title}: the budget is {steps} steps", where="--budget", remedy="give more")
        found.append(_Trained(dataclasses.replace(arm, spec=spec), settled, steps, wanted.wishes))
    return found


def _spec(arm: Arm) -> Model:
    assert arm.spec is not None, "only baselines have no spec"
    return arm.spec


def _heads(spec: Model) -> tuple[str, ...]:
    return tuple(spec.architecture.heads)


def _metric(wanted: Wanted, trained: Sequence[_Trained]) -> Metric:
    """Macro-F1 of a probe; else bits per byte where every arm gives text a probability; else the loss."""
    if wanted.probe is not None:
        return labelled.METRIC
    specs = [_spec(one.arm) for one in trained]
    measure: Literal["bits_per_byte", "loss"] = "loss"
    if all(spec.objective.kind == "causal_lm" for spec in specs):
        measure = "bits_per_byte"
    for a, b in itertools.pairwise(specs):
        rules.comparable(a, b, measure)
    return BITS if measure == "bits_per_byte" else LOSS


def _claims(wanted: Wanted, metric: Metric) -> tuple[Claim, ...]:
    """The claims as they were written; else that each arm beats the one before it, or the first."""
    titles = {arm.name: arm.title for arm in wanted.arms}
    if wanted.claims:
        return tuple(_read(text, titles, metric) for text in wanted.claims)
    pairs = (
        itertools.pairwise(titles)
        if wanted.against == "before"
        else ((next(iter(titles)), b) for b in list(titles)[1:])
    )
    return tuple(Claim(name=f"{titles[b]} beats {titles[a]}", better=b, worse=a, metric=metric.name) for a, b in pairs)


def _read(text: str, titles: Mapping[str, str], metric: Metric) -> Claim:
    """``A beats B`` or ``A beats B by 0.02``, arms by their names."""
    better, beats, rest = text.partition(" beats ")
    worse, by, margin = rest.partition(" by ")
    if not beats:
        raise UsageError(f"{text!r} claims nothing", where="--claim", remedy='write "A beats B by 0.02"')
    for name in (better.strip(), worse.strip()):
        if name not in titles:
            remedy = nearest(name, titles) or f"one of {', '.join(titles)}"
            raise UsageError(f"a claim names no arm: {name!r}", where="--claim", remedy=remedy)
    try:
        least = float(margin) if by else 0.0
    except ValueError:
        raise UsageError(f"{margin!r} is no number", where=f"claim {text!r}") from None
    return Claim(name=text, better=better.strip(), worse=worse.strip(), metric=metric.name, margin=least)


def _study(
    wanted: Wanted, trained: Sequence[_Trained], metric: Metric, claims: tuple[Claim, ...], seeds: tuple[int, ...],
    looks: tuple[int, ...], facts: Mapping[str, Any],
) -> Study:  # fmt: skip
    first, steps = trained[0].settled, sorted({one.steps for one in trained})
    rows = f"{first.batch} rows × {first.length} tokens"
    shared = "the first arm's recipe" if wanted.recipes == "shared" else "nothing of the recipes but rows and lengths"
    unequal = ["parameters and seconds per step (in the table)"]
    if len(steps) > 1:
        unequal.append(f"steps: {steps[0]:,} to {steps[-1]:,}, so that each arm does the same {wanted.budget.unit}")
    if wanted.recipes == "own":
        unequal.append("the recipes: learning rate, schedule and decay are each arm's own")
    if wanted.left:
        unequal.append(f"left out of the walk: {'; '.join(wanted.left)}")
    return Study(
        name=NAME, title=wanted.title, question=wanted.question, arms=tuple(one.arm for one in trained), claims=claims,
        metric=metric, seeds=seeds, looks=looks,
        budget=f"{wanted.budget}: {' to '.join(f'{n:,}' for n in (steps[0], steps[-1])[: len(steps)])} steps × {rows}",
        items=f"{facts['validation']['documents']:,} held-out documents, read in batches of their own"
        if wanted.probe is None else f"{len(wanted.probe.test):,} held-out rows of {wanted.probe.where}, after "
        f"{PROBE['epochs']} epochs of fine-tuning on {len(wanted.probe.train):,}",
        equal=(f"texts and their order, the vocabulary, held-out questions, {shared}, and the draw behind the initial "
               "value of every parameter that two arms share",),
        unequal=tuple(unequal),
    )  # fmt: skip


def _cell(wanted: Wanted, one: _Trained, seed: int, folder: Path, data: str, metric: Metric) -> Cell:
    from variorum.training.rundir import Plan, machine

    spec = _spec(one.arm)
    plan = Plan(
        spec=spec, settled=one.settled, steps=one.steps, every=one.steps, saves=one.steps, patience=0, seed=seed,
        precision=one.wishes.precision, recompute=one.wishes.recompute, machine=machine(1),
    )  # fmt: skip
    looks = tuple(sorted({round(one.steps * i / CURVE_POINTS) for i in range(1, CURVE_POINTS)} - {0, one.steps}))
    work: dict[str, Any] = {"plan": plan, "folder": folder}
    if wanted.probe is None:
        work |= {"looks": looks, "unit": metric.unit}
    else:
        probe = wanted.probe
        work |= {"rows": {"train": probe.train, "labels": probe.train_labels, "test": probe.test}, "how": PROBE}
    call = JOB if wanted.probe is None else PROBED
    return Cell(study=NAME, arm=one.arm.name, seed=seed, call=call, work=work, data=data, steps=one.steps, threads=1)


def _sources(texts: Texts) -> str:
    return f"Texts: {', '.join(source.place for source in texts.sources)}."
