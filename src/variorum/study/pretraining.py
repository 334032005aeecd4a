"""A study of pretraining: arms learn from the same texts within one budget, and are judged on texts held out.

Arms differ in their specs alone. The vocabulary is the first arm's and learned once; its recipe is every arm's, unless
each is to have its own, or of a grid of learning rates, which all try, the one that suits it. What is compared has to
be the same question: bits per byte where all arms give text a probability, else the objective's loss, where the rules
call it comparable.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from variorum.errors import UsageError
from variorum.spec import rules
from variorum.spec.model import Model
from variorum.spec.size import size
from variorum.study import labelled, settling
from variorum.study.budgets import Budget
from variorum.study.cells import Cell, CellResult, fingerprint
from variorum.study.claims import claims_of, each_beats
from variorum.study.design import Arm, Metric, Study
from variorum.study.labelled import Rows
from variorum.study.plan import FEWEST_STEPS, Measured
from variorum.study.session import ANY, THREADS, Declared, Limits, Page, Trials, declared_looks
from variorum.study.settling import OWN_SEED, Trained
from variorum.study.statistics import Claim, looks_of
from variorum.text.stream import Source
from variorum.training.wishes import Wishes

BITS = Metric(name="held-out loss", unit="bits per byte", lower_is_better=True, by_item=True)
LOSS = Metric(name="held-out loss", unit="nats per target", lower_is_better=True, by_item=True)
CURVE_POINTS = FEWEST_STEPS
UNTIMED = 1000
"""Steps of a cell whose time is still to be measured."""
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
        rates: learning rates that every arm tries on training texts, to keep the one that suits it.
        matched: what gave every arm the first one's parameters, if anything did.
        priced: measure what each arm costs where it only reads.
        judged_length: tokens of a held-out row; those of a training row if 0.
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
    rates: tuple[float, ...] = ()
    matched: Literal["", "width", "depth"] = ""
    priced: bool = False
    judged_length: int = 0

    def __post_init__(self) -> None:
        if self.judged_length and self.probe is not None:
            raise UsageError("labelled rows are read as long as they are", where="--judged-length")
        if self.rates and self.wishes.rate is not None:
            raise UsageError("one rate is given, and rates to pick from", where="--rates", remedy="drop --rate")
        if len(set(self.rates)) < len(self.rates) or any(rate <= 0 for rate in self.rates) or len(self.rates) == 1:
            raise UsageError("rates are several, each above 0 and named once", where="--rates")


NAME = "pretraining"


def declare(
    wanted: Wanted, out: Path, *, limits: Limits = ANY, keep: bool = True, say: Callable[[str], None]
) -> Declared:
    """Fix arms, data, steps, claims and cells; texts are tokenised here, once, and where the budget is a time, a few
    steps of every arm are timed.

    Raises:
        UsageError: arms that cannot be compared, a claim about no arm, too few seeds.
    """
    looks_of(wanted.seeds, wanted.looks)
    metric = _metric(wanted, _trained(wanted, vocab=wanted.texts.vocab, pad_id=0))  # refused before a text is read
    claims = claims_of(wanted.claims, wanted.arms, metric) or each_beats(_pairs(wanted), metric)
    ground = _prepared(wanted, out, say)
    trained = _trained(wanted, vocab=ground.vocab, pad_id=ground.pad_id)
    design = _Design(wanted=wanted, metric=metric, claims=claims, ground=ground, out=out, limits=limits, keep=keep)
    measured: Mapping[tuple[str, str], Measured] = {}
    if wanted.budget.unit == "seconds":
        starts = [design.cell(one, OWN_SEED) for one in trained]
        pace, measured = settling.paces(starts, out, limits=limits, keep=keep, say=say)
        trained = [_timed(one, wanted.budget.steps(seconds=pace[one.arm.name])) for one in trained]
    declared = replace(design.declared(trained), measured=measured)
    if not wanted.rates:
        return declared
    tried = [settling.trials(one, wanted.rates, design.cell(one, OWN_SEED)) for one in trained]

    def decide(results: Mapping[str, CellResult]) -> Declared:
        best = [settling.picked(one, cells, results) for one, cells in zip(trained, tried, strict=True)]
        return replace(design.declared(best), measured=measured)

    cells = tuple(cell for found in tried for cell in found.values())
    return replace(declared, trials=Trials(cells=cells, decide=decide))


@dataclass(frozen=True, kw_only=True)
class _Ground:
    """The texts as every arm reads them: the folder of their shards, what is in it, and its hash."""

    folder: Path
    facts: Mapping[str, Any]
    vocab: int
    pad_id: int | None
    digest: str


def _prepared(wanted: Wanted, out: Path, say: Callable[[str], None]) -> _Ground:
    from variorum.text import load_tokenizer
    from variorum.training import shards
    from variorum.training.prepare import corpus
    from variorum.training.rundir import DATA, Asked

    texts = wanted.texts
    asked = Asked(
        model=texts.like, set=(), scale="", sources=texts.sources, validation=texts.validation,
        tokenizer=texts.tokenizer, vocab=texts.vocab, budget="", wishes=wanted.wishes,
    )  # fmt: skip
    folder = out / "data" / fingerprint(dataclasses.asdict(texts))[:16]
    folder.mkdir(parents=True, exist_ok=True)
    corpus(asked, folder, workers=1, say=say)
    facts = shards.facts_of(folder / DATA)
    tokenizer = load_tokenizer(folder / DATA / shards.TOKENIZER)
    return _Ground(
        folder=folder, facts=facts, vocab=tokenizer.vocab_size, pad_id=tokenizer.pad_id,
        digest=fingerprint([facts, (folder / DATA / shards.TOKENIZER).name]),
    )  # fmt: skip


def _trained(wanted: Wanted, *, vocab: int, pad_id: int | None) -> list[Trained]:
    """Every arm fitted to the vocabulary, with its numbers; a time is no number of steps yet."""
    from variorum.spec.small import worded
    from variorum.training.recipes import settle

    found: list[Trained] = []
    for arm in wanted.arms:
        spec = _spec(arm)
        recipe = spec if wanted.recipes == "own" or not found else _spec(found[0].arm)
        settled = settle(recipe, wanted.wishes)
        if recipe is not spec:  # how rows are cut belongs to the objective
            own = settle(spec, wanted.wishes)
            settled = replace(settled, format=own.format, why=settled.why | {"format": own.why["format"]})
        spec = worded(spec, vocab=vocab, pad_id=pad_id, length=max(settled.length, wanted.judged_length))
        spec = spec.set({"tokenizer": _spec(wanted.arms[0]).tokenizer})
        rules.require(spec, rules.BUILD)
        rows = settled.batch * settled.length
        cost = 3 * size(spec, head=_heads(spec), context=settled.length, batch=settled.batch).forward_flops
        one = Trained(replace(arm, spec=spec), settled, UNTIMED)
        if wanted.budget.unit != "seconds":
            one = _timed(one, wanted.budget.steps(tokens=rows, flops=cost))
        found.append(one)
    return found


def _timed(one: Trained, steps: int) -> Trained:
    if steps < FEWEST_STEPS:
        raise UsageError(f"{one.arm.title}: the budget is {steps} steps", where="--budget", remedy="give more")
    return replace(one, steps=steps)


def _spec(arm: Arm) -> Model:
    assert arm.spec is not None, "only baselines have no spec"
    return arm.spec


def _heads(spec: Model) -> tuple[str, ...]:
    return tuple(spec.architecture.heads)


def _metric(wanted: Wanted, trained: Sequence[Trained]) -> Metric:
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


def _pairs(wanted: Wanted) -> Iterable[tuple[Arm, Arm]]:
    """Whom each arm is to beat: the one before it, or the first."""
    if wanted.against == "before":
        return ((b, a) for a, b in itertools.pairwise(wanted.arms))
    return ((arm, wanted.arms[0]) for arm in wanted.arms[1:])


@dataclass(frozen=True, kw_only=True)
class _Design:
    """All of a study but how its arms are trained."""

    wanted: Wanted
    metric: Metric
    claims: tuple[Claim, ...]
    ground: _Ground
    out: Path
    limits: Limits
    keep: bool

    def declared(self, trained: Sequence[Trained]) -> Declared:
        """The study of arms that are trained so."""
        wanted, probe = self.wanted, self.wanted.probe
        cells = tuple(self.cell(one, seed) for seed in range(wanted.seeds) for one in trained)
        looks = declared_looks(self.out, cells, looks_of(wanted.seeds, wanted.looks), keep=self.keep)
        study = self.study(trained, looks)
        lead = f"Every figure is at this budget: {study.budget}, {wanted.seeds} seeds. More training may change any."
        return Declared(
            out=self.out, studies=(study,), cells=cells, steps=max(one.steps for one in trained), limits=self.limits,
            page=Page(title=wanted.title, lead=lead, colophon=_sources(wanted.texts)),
            truths={} if probe is None else {NAME: probe.truth}, texts={} if probe is None else {NAME: probe.test},
        )  # fmt: skip

    def study(self, trained: Sequence[Trained], looks: tuple[int, ...]) -> Study:
        """What is compared, and what is held equal."""
        wanted, first = self.wanted, trained[0].settled
        steps = sorted({one.steps for one in trained})
        counts = " to ".join(f"{n:,}" for n in (steps[0], steps[-1])[: len(steps)])
        return Study(
            name=NAME, title=wanted.title, question=wanted.question, arms=tuple(one.arm for one in trained),
            claims=self.claims, metric=self.metric, seeds=tuple(range(wanted.seeds)), looks=looks, items=self._items(),
            budget=f"{wanted.budget}: {counts} steps × {first.batch} rows × {first.length} tokens",
            equal=tuple(self._equal()), unequal=tuple(self._unequal(trained, steps)),
        )  # fmt: skip

    def _items(self) -> str:
        probe = self.wanted.probe
        if probe is None:
            longer = self.wanted.judged_length
            rows = f", in rows of {longer} tokens" if longer else ""
            documents = self.ground.facts["validation"]["documents"]
            return f"{documents:,} held-out documents, read in batches of their own{rows}"
        return (
            f"{len(probe.test):,} held-out rows of {probe.where}, after {PROBE['epochs']} epochs of fine-tuning on "
            f"{len(probe.train):,}"
        )

    def _equal(self) -> Iterator[str]:
        wanted = self.wanted
        recipe = "the first arm's recipe" if wanted.recipes == "shared" else "rows and lengths"
        yield (f"texts and their order, the vocabulary, held-out questions, {recipe}, and the draw behind the initial "
               "value of every parameter that two arms share")  # fmt: skip
        if wanted.matched:
            yield f"parameters, by the {wanted.matched} of every arm but the first"
        if wanted.rates:
            grid = ", ".join(f"{rate:g}" for rate in wanted.rates)
            yield (f"the search for a learning rate: {grid}, each for {settling.SHARE:.0%} of the steps, on training "
                   "texts alone and with a seed that is not reported")  # fmt: skip

    def _unequal(self, trained: Sequence[Trained], steps: Sequence[int]) -> Iterator[str]:
        wanted = self.wanted
        yield "seconds per step (in the table)" if wanted.matched else "parameters and seconds per step (in the table)"
        if len(steps) > 1:
            alike = "the seconds of training" if wanted.budget.unit == "seconds" else wanted.budget.unit
            yield f"steps: {steps[0]:,} to {steps[-1]:,}, so that each arm has the same {alike}"
        if wanted.recipes == "own":
            yield "the recipes: learning rate, schedule and decay are each arm's own"
        if wanted.rates:
            found = [settling.told(one, wanted.rates) for one in trained if one.scores is not None]
            yield f"the learning rate that suits: {'; '.join(found) or 'to be tried'}"
        if wanted.left:
            yield f"left out of the walk: {'; '.join(wanted.left)}"

    def cell(self, one: Trained, seed: int) -> Cell:
        """One arm with one seed."""
        from variorum.training.rundir import Plan, machine

        wishes, probe = self.wanted.wishes, self.wanted.probe
        plan = Plan(
            spec=_spec(one.arm), settled=one.settled, steps=one.steps, every=one.steps, saves=one.steps, patience=0,
            seed=seed, precision=wishes.precision, recompute=wishes.recompute, machine=machine(THREADS),
        )  # fmt: skip
        work: dict[str, Any] = {"plan": plan, "folder": self.ground.folder}
        if probe is None:
            looks = {round(one.steps * i / CURVE_POINTS) for i in range(1, CURVE_POINTS)} - {0, one.steps}
            work |= {"looks": tuple(sorted(looks)), "unit": self.metric.unit}
        else:
            work |= {"rows": {"train": probe.train, "labels": probe.train_labels, "test": probe.test}, "how": PROBE}
        if self.wanted.judged_length:
            work["judged_length"] = self.wanted.judged_length
        if self.wanted.priced and seed == 0:
            work["priced"] = True
        return Cell(
            study=NAME, arm=one.arm.name, seed=seed, call=JOB if probe is None else PROBED, work=work,
            data=self.ground.digest, steps=one.steps, threads=THREADS,
        )  # fmt: skip


def _sources(texts: Texts) -> str:
    return f"Texts: {', '.join(source.place for source in texts.sources)}."
