"""Are verdicts honest on models that were trained? A/A studies, and effects that were planted.

:mod:`~variorum.study.honesty` draws its scores; here they are earned, by a nano BERT that names the domain of snippets
and a nano GPT-2 that reads novels. In an A/A study an arm meets its namesake, whose initial values and order of data
are other draws, so any verdict is false. In the others an arm learns from spoilt data, with the draws of the whole one,
and has to be found worse.
"""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from variorum.errors import RunFailed
from variorum.files import write_whole
from variorum.study import corpora, domain, nano, prepare, walk
from variorum.study.analysis import Truth, analyse
from variorum.study.cells import Cell, CellResult, CellStore
from variorum.study.design import Arm, Metric, Study
from variorum.study.judging import Classes
from variorum.study.plan import Plan
from variorum.study.prepare import Prepared
from variorum.study.run import by_arm, cached, compute, measure
from variorum.study.session import Limits
from variorum.study.statistics import Claim, Judgement

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.int32]]

VOCAB = 1024
SAME, WORSE = 5, 7
"""Seeds of a study of an arm and its namesake, and of one in which what was planted must be seen three times over."""
SNIPPETS, TESTED, LONGEST = 2000, 600, 32
"""Rows that are learned and judged, and tokens of each."""
WINDOW, WINDOWS = 64, 4
"""Tokens of a window of text, and windows of each held-out chapter."""
FEW, STEPS = 50, 200
"""Steps of an arm that meets its namesake, and of one that meets a spoilt one."""
APART = 1000
"""Between the first seeds of two studies; half of it between an arm's and its namesake's."""
FALSE, FOUND, LARGE = 5 / 40, 18 / 20, 3.0
"""Share of A/A studies that may give a verdict; of planted effects that must be found; and how often each of them must
be as large as the least effect that such a study detects."""
AA, AGAIN = "the same arm", "the same arm and draws"


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is learned and how it is judged.

    Attributes:
        work: arguments of ``call`` beside data, settings and seed. settings: of so many steps.
        data: the whole of it and its spoilt forms, each with the share of the steps that read it as often.
    """

    name: str
    metric: Metric
    truth: Truth | None
    call: str
    work: Mapping[str, Any]
    settings: Callable[[int], Any]
    data: Mapping[str, tuple[Prepared, float]]

    def cells(self, study: str, arm: str, draws: range, steps: int, data: str = "") -> list[Cell]:
        """One cell for each of the ``draws`` of an arm that learns from ``data``; in the study its seeds are 0, 1, …"""
        prepared, share = self.data[data]
        steps = round(steps * share)
        work = {**self.work, "data": prepared.path, "settings": self.settings(steps), "looks": ()}
        return [
            Cell(study=study, arm=arm, seed=k, call=self.call, work={**work, "seed": draw}, data=prepared.digest,
                 steps=steps, threads=1)
            for k, draw in enumerate(draws)
        ]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One study: ``kind`` says what its second arm is."""

    kind: str
    task: Task
    study: Study
    cells: tuple[Cell, ...]

    def judged(self, results: dict[str, CellResult]) -> Judgement:
        """Its one judgement, from results by cell key."""
        outcome = analyse(self.study, by_arm(self.study, self.cells, results), self.task.truth)
        if not outcome.judgements:
            raise RunFailed("too few cells ended for a judgement", where=self.study.name, remedy="run it again")
        return outcome.judgements[0]


class Calibrated(NamedTuple):
    """What the trials of one kind gave.

    Attributes:
        verdicts: how many gave the verdict that counts: any, or that the spoilt arm is worse. wanted: how many may or
            must. detectable: the least effect that such a study decides, in the metric's unit. least: the smallest
            planted effect over it; 0 where none is.
    """

    kind: str
    studies: int
    verdicts: int
    wanted: str
    detectable: float
    least: float
    honest: bool


def run(folder: Path, *, studies: int, limits: Limits, notes: TextIO) -> list[Calibrated]:
    """Train what is missing in ``folder``: so many A/A studies, and half as many with a planted effect.

    Raises:
        RunFailed: a study has too few cells that ended.
    """
    tasks = (_snippets(folder / "data"), _novels(folder / "data"))
    trials = list(_trials(tasks, studies))
    store = CellStore(folder / "cells")
    results = _computed(folder, trials, store, limits, notes)
    judged = [(trial.kind, trial.judged(results)) for trial in trials]
    return [*_counted(judged), _repeated(folder, trials, results, limits, notes)]


def _trials(tasks: Sequence[Task], studies: int) -> Iterator[Trial]:
    """A/A studies of each task in turn, then those of each spoilt form."""
    for i in range(studies):
        task, name, first = tasks[i % len(tasks)], f"same {i}", APART * i
        pair = (("whole", first), ("other", first + APART // 2))
        yield _trial(AA, task, name, [task.cells(name, arm, range(at, at + SAME), FEW) for arm, at in pair])
    spoilt = [(task, kind) for task in tasks for kind in task.data if kind]
    for i in range(studies // 2):
        (task, kind), name, first = spoilt[i % len(spoilt)], f"spoilt {i}", APART * (studies + i)
        draws = range(first, first + WORSE)
        learned = (("whole", ""), ("other", kind))
        yield _trial(kind, task, name, [task.cells(name, arm, draws, STEPS, data) for arm, data in learned])


def _trial(kind: str, task: Task, name: str, cells: Sequence[Sequence[Cell]]) -> Trial:
    arms = (Arm(name="whole", title="whole", spec=None), Arm(name="other", title=kind, spec=None))
    seeds = len(cells[0])
    claim = Claim(name=f"whole beats {kind}", better="whole", worse="other", metric=task.metric.name)
    study = Study(
        name=name, title=name, question=claim.name, arms=arms, claims=(claim,), metric=task.metric,
        seeds=tuple(range(seeds)), looks=(seeds,), items="held-out items",
    )  # fmt: skip
    return Trial(kind=kind, task=task, study=study, cells=tuple(cell for arm in cells for cell in arm))


def _computed(
    folder: Path, trials: Sequence[Trial], store: CellStore, limits: Limits, notes: TextIO
) -> dict[str, CellResult]:
    """Results by key of every cell, those that are missing computed."""
    cells = tuple(cell for trial in trials for cell in trial.cells)
    done = cached(cells, store)
    if len(done) == len(cells):
        return done
    with limits.opened(folder, len(cells)) as crew:
        kinds = {_sort(cell): cell for cell in cells}
        measured, _ = measure(list(kinds.values()), crew, notes)
        paces = {
            sort: measured[cell.study, cell.arm] for sort, cell in kinds.items() if (cell.study, cell.arm) in measured
        }
        plan = Plan(
            studies=tuple(trial.study for trial in trials), cells=cells, cached=frozenset(done), workers=crew.workers,
            threads=1, steps=STEPS, out=folder, available=crew.memory(),
            measured={(cell.study, cell.arm): paces[_sort(cell)] for cell in cells if _sort(cell) in paces},
        )  # fmt: skip
        plan.check(time_limit=limits.time)
        ran = compute(plan.pending, plan, store, crew, notes, finished=_said)
    return done | ran.results


def _sort(cell: Cell) -> tuple[str, int]:
    """Cells of one sort take as long."""
    return cell.call, cell.steps


def _said(cell: Cell, result: CellResult) -> str:
    return f"{result.facts['seconds']:.0f} s"


def _repeated(
    folder: Path, trials: Sequence[Trial], results: dict[str, CellResult], limits: Limits, notes: TextIO
) -> Calibrated:
    """The first arm of each task computed a second time from the same draws: no difference, to the last bit."""
    firsts = {trial.task.name: trial for trial in reversed(trials) if trial.kind == AA}.values()
    apart = False
    for trial in firsts:
        once = [cell for cell in trial.cells if cell.arm == "whole"]
        again = dataclasses.replace(trial, cells=tuple(once))
        with tempfile.TemporaryDirectory(prefix="variorum-again-", dir=folder) as place:
            twice = _computed(folder, [again], CellStore(Path(place)), limits, notes)
        apart |= any(twice[cell.key].items != results[cell.key].items for cell in once)
    return Calibrated(AGAIN, len(firsts), int(apart), "0", 0.0, 0.0, not apart)


def _counted(judged: Sequence[tuple[str, Judgement]]) -> Iterator[Calibrated]:
    """A/A studies together, then each kind of planted effect, then all of those."""
    same = [found for kind, found in judged if kind == AA]
    wrong, most = sum(found.verdict in ("supported", "refuted") for found in same), int(FALSE * len(same))
    usual = median(found.detectable for found in same)
    yield Calibrated(AA, len(same), wrong, f"at most {most}", usual, 0.0, wrong <= most)
    planted = [(kind, found) for kind, found in judged if kind != AA]
    for kind in dict.fromkeys(kind for kind, _ in planted):
        yield _planted(kind, [found for one, found in planted if one == kind], 1.0)
    if planted:
        yield _planted("all planted effects", [found for _, found in planted], FOUND)


def _planted(kind: str, judged: Sequence[Judgement], share: float) -> Calibrated:
    """Those of one kind; each of them alone may miss one, so that only all together are held to the share."""
    found, least = sum(one.verdict == "supported" for one in judged), min(one.gain / one.detectable for one in judged)
    must = max(0, round(share * len(judged)) - (share == 1.0))
    usual = median(one.detectable for one in judged)
    return Calibrated(kind, len(judged), found, f"at least {must}", usual, least, found >= must and least >= LARGE)


def _snippets(folder: Path) -> Task:
    """Four domains of snippets: labels shuffled, or a quarter of the rows."""
    learned, test, _ = corpora.without_leaks(corpora.snippets())
    learned, test = corpora.spread(learned, SNIPPETS), corpora.spread(test, TESTED)
    whole = prepare.snippets(folder, learned, test, vocab=VOCAB, longest=LONGEST)
    pad = int(prepare.read(whole)["wrapper"][0])
    spec = nano.encoder_arms(vocab=VOCAB, length=LONGEST, labels=len(corpora.DOMAINS), pad=pad)[0].spec
    right = [corpora.DOMAINS.index(row.domain) for row in test]
    judge = Classes(corpora.DOMAINS)
    return Task(
        name="snippets", metric=domain.METRIC, call="variorum.study.jobs:label_cell", settings=domain.recipe,
        truth=Truth(labels=right, groups=domain.groups([row.document for row in test]), judge=judge),
        work={"spec": spec, "batch": domain.BATCH, "curve_rows": TESTED, "classes": len(corpora.DOMAINS), "pad": pad},
        data={
            "": (whole, 1.0),
            "labels shuffled": (_spoilt(whole, "labels", _shuffle_labels), 1.0),
            "a quarter of the rows": (_spoilt(whole, "quarter", _quarter), 0.25),
        },
    )  # fmt: skip


def _novels(folder: Path) -> Task:
    """Windows of novels, or the same ones with their tokens in any order."""
    whole = prepare.novels(folder, corpora.chapters(), vocab=VOCAB, length=WINDOW, windows=WINDOWS)
    return Task(
        name="novels", metric=walk.METRIC, truth=None, call="variorum.study.jobs:causal_cell", settings=walk.recipe,
        work={"spec": nano.walk_arms(vocab=VOCAB, length=WINDOW)[0].spec, "batch": walk.BATCH},
        data={"": (whole, 1.0), "positions shuffled": (_spoilt(whole, "positions", _shuffle_positions), 1.0)},
    )  # fmt: skip


def _spoilt(whole: Prepared, name: str, change: Callable[[Arrays], None]) -> Prepared:
    """A copy of the data with its training rows changed."""
    from safetensors.numpy import save

    arrays = dict(prepare.read(whole))
    change(arrays)
    content = save(arrays)
    path = whole.path.with_stem(f"{whole.path.stem}-{name}")
    write_whole(path, content)
    return Prepared(path=path, digest=hashlib.sha256(content).hexdigest())


def _shuffle_labels(arrays: Arrays) -> None:
    import numpy as np

    arrays["train_labels"] = np.random.default_rng(0).permutation(arrays["train_labels"])


def _quarter(arrays: Arrays) -> None:
    import numpy as np

    ends = arrays["train_ends"]
    rows = np.split(arrays["train_ids"], ends[:-1])[::4]
    arrays["train_ids"] = np.concatenate(rows)
    arrays["train_ends"] = np.cumsum([len(row) for row in rows]).astype(np.int32)
    arrays["train_labels"] = np.ascontiguousarray(arrays["train_labels"][::4])


def _shuffle_positions(arrays: Arrays) -> None:
    import numpy as np

    arrays["train"] = np.random.default_rng(0).permuted(arrays["train"], axis=1)
