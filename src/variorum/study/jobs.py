"""What a worker computes: one cell from a spec, data and a seed to item scores, or a few steps of it, timed.

Everything here runs in a child process with pinned threads. The data are tensors in one file, made by
`prepare`; the study's design never reaches this far.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variorum.study.cells import CellResult
from variorum.study.executor import Report
from variorum.study.lesson import BATCH, Lesson
from variorum.training.optimiser import Optimisation

if TYPE_CHECKING:
    import torch

    from variorum.model import Model as Built
    from variorum.objectives.base import Batch
    from variorum.spec.model import Model
    from variorum.study.analysis import Truth
    from variorum.study.answering import Kept
    from variorum.training.loop import StepRecord
    from variorum.training.rundir import Plan
    from variorum.training.session import Session

PROBED = 32
"""Test rows that a timed start answers."""
BASELINE_PROBE = 500
"""Rows that time the baseline; its cost grows with the rows."""


def causal_cell(
    *, report: Report, spec: Model, data: Path, settings: Optimisation, seed: int, batch: int, looks: Sequence[int],
    steps: int | None = None,
) -> CellResult:  # fmt: skip
    """Train a causal language model on windows of text; score held-out documents in bits per byte.

    Args:
        data: holds ``train`` [N, T + 1], ``held_out`` [M, T + 1], ``documents`` [M] and ``token_bytes`` [V].
        looks: step counts after which the held-out score enters the learning curve.
        steps: stop early (a measured start).
    """
    from variorum.builder import build
    from variorum.objectives.causal import Causal
    from variorum.training.evaluate import bits_per_byte
    from variorum.training.streams import DataOrder

    begun = time.perf_counter()
    held = _load(data)
    model = build(spec, seed=seed, head="causal_lm")
    order = DataOrder(rows=len(held["train"]), batch=batch, seed=seed)

    def pieces(step: int) -> list[Batch]:
        return [{"input_ids": held["train"][order.step(step)].long()}]

    def score() -> torch.Tensor:
        return bits_per_byte(model, held["held_out"].long(), held["documents"].long(), held["token_bytes"].long())

    run, start = _Run(report, looks, lambda: float(score().mean())), _since(begun)
    losses = run.train(model, Causal(), pieces, settings, seed=seed, steps=steps)
    last = time.perf_counter()
    items = tuple(score().tolist())
    rest = start + _since(last) * (1 + len(looks))
    curve = (*run.curve, (len(losses), sum(items) / len(items)))
    return CellResult(items=items, curve=curve, losses=losses, facts=_facts(model, begun, run, rest))


def label_cell(
    *, report: Report, spec: Model, data: Path, settings: Optimisation, seed: int, batch: int, looks: Sequence[int],
    curve_rows: int, classes: int, pad: int, steps: int | None = None,
) -> CellResult:  # fmt: skip
    """Train a classifier on labelled rows; predict every test row.

    Args:
        data: holds ``train_ids``, ``train_ends``, ``train_labels`` and the same for ``test``: rows lie end to end.
        curve_rows: the learning curve's macro-F1 is taken on so many test rows.
    """
    from variorum.builder import build
    from variorum.objectives.labels import Labels
    from variorum.tasks.metrics.classes import confusion, macro_f1
    from variorum.tasks.rows import collate, predict
    from variorum.training.streams import DataOrder

    begun = time.perf_counter()
    held = _load(data)
    rows, labels = _rows(held, "train"), held["train_labels"].tolist()
    test, truth = _rows(held, "test"), held["test_labels"].tolist()
    model = build(spec, seed=seed, head="sequence_classification")
    order = DataOrder(rows=len(rows), batch=batch, seed=seed)

    def pieces(step: int) -> list[Batch]:
        picked = order.step(step).tolist()
        return [collate([rows[i] for i in picked], [labels[i] for i in picked], pad=pad)]

    def score() -> float:
        seen = predict(model, test[:curve_rows], pad=pad)[0]
        return float(macro_f1(confusion(truth[:curve_rows], seen.numpy(), classes)))

    run, start = _Run(report, looks, score), _since(begun)
    losses = run.train(model, Labels(), pieces, settings, seed=seed, steps=steps)
    last = time.perf_counter()
    items = predict(model, test, pad=pad)[0]
    rest = start + _since(last) * (1 + len(looks) * min(1.0, curve_rows / len(test)))
    final = float(macro_f1(confusion(truth[:curve_rows], items[:curve_rows].numpy(), classes)))
    return CellResult(
        items=tuple(items.tolist()),
        curve=(*run.curve, (len(losses), final)),
        losses=losses,
        facts=_facts(model, begun, run, rest),
    )


def probed_cell(
    *, report: Report, plan: Plan, folder: Path, rows: Mapping[str, Any], how: Mapping[str, Any], priced: bool = False,
    steps: int | None = None,
) -> CellResult:  # fmt: skip
    """Pretrain as ``plan`` says, then fine-tune the model on labelled rows and predict every test row.

    Args:
        rows: ``train`` and ``test`` texts, and the ``labels`` of the former.
        how: fields of :class:`~variorum.tasks.classify.Classifier`.
        priced: as :func:`pretrain_cell` has it.
        steps: a timed start of so many steps of both.
    """
    import tempfile

    from variorum.checkpoint import save
    from variorum.tasks.classify import Classifier
    from variorum.training.run import deterministic
    from variorum.training.session import assemble

    begun = time.perf_counter()
    session = assemble(plan, folder)
    run, start = _Run(report, (), lambda: 0.0), _since(begun)
    with deterministic():
        losses = run.follow(session.trainer.advance, plan.steps if steps is None else steps)
    train, labels, test = rows["train"], rows["labels"], rows["test"]
    if steps is not None:
        train, labels, test = train[: 32 * steps], labels[: 32 * steps], test[:32]
    last = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="variorum-probe-") as place:
        save(session.model, f"{place}/model")
        fitted = Classifier(model=f"{place}/model", validation=0.0, random_state=plan.seed, **how)
        fitted.fit(list(train), list(labels))
        tuned, made, last = fitted.history_, _since(last), time.perf_counter()
        items = tuple(float(one) for one in fitted.predict(list(test)))
    often = len(rows["train"]) / len(train), len(rows["test"]) / len(test)
    rest = start + made + tuned.pace * tuned.epochs[-1].steps * (often[0] - 1) + _since(last) * often[1]
    facts = _facts(session.model, begun, run, rest)
    if priced:
        facts |= _read(session.model, plan.settled.length, facts)
    return CellResult(items=items, curve=(), losses=losses, facts=facts)


def arm_cell(
    *, report: Report, way: str, lesson: Lesson, state: str, test: Sequence[Any], priced: int = 0,
    steps: int | None = None,
) -> CellResult:  # fmt: skip
    """Learn labelled rows in one way and answer every test row.

    Args:
        state: of the model's files, which only decides what the cell is.
        priced: so many test rows are answered one by one in a process of its own, for the costs of an answer.
        steps: a timed start of so many steps, whose facts are estimates of the whole.
    """
    from variorum.study.answering import TOGETHER
    from variorum.study.ways import WAYS

    del state
    begun = time.perf_counter()
    taught, asked = (lesson, test) if steps is None else (lesson.some(BATCH * steps), test[:PROBED])
    learned = WAYS[way].learn(taught, _Counted(report))
    counted = WAYS[way].steps(len(taught.X), taught.how)  # there are more where a long row is read in windows
    report(learned.steps)
    taken = time.perf_counter() - begun - learned.seconds
    answers, seconds = _clocked(learned.answer, asked)
    pace, each = learned.pace * learned.steps / counted, seconds / len(asked)
    if learned.steps == 1:  # of all rows at once
        pace *= len(lesson.X) / len(taught.X)
    facts = {
        **_machine(), "parameters": learned.parameters, "seconds": time.perf_counter() - begun,
        "train_seconds": learned.seconds, "step_seconds": [round(pace, 4)] * learned.steps,
        "rest_seconds": taken + each * len(test),
    }  # fmt: skip
    if priced:
        facts |= _priced(learned, way, asked[:priced], asked, facts)
        answered = [len(rows[:priced]) + len(rows[:TOGETHER]) for rows in (asked, test)]
        facts["priced_seconds"] += each * (answered[1] - answered[0])
    return CellResult(items=tuple(answers), curve=(), losses=learned.losses, facts=facts)


class _Counted:
    """Tells how many steps were done, of one training or of several."""

    def __init__(self, report: Report) -> None:
        self.report, self.done = report, 0

    def at(self, done: int, note: str = "") -> None:
        self.done += 1
        self.report(self.done)


def rated_cell(
    *, report: Report, way: str, lesson: Lesson, state: str, test: Sequence[Any], truth: Truth, steps: int | None = None
) -> CellResult:
    """As :func:`arm_cell`; its only item is the figure of all test rows, by which a learning rate is picked."""
    found = arm_cell(report=report, way=way, lesson=lesson, state=state, test=test, steps=steps)
    return found if steps is not None else dataclasses.replace(found, items=(truth.whole(found.items),))


def _clocked(answer: Callable[[Sequence[Any]], list[Any]], rows: Sequence[Any]) -> tuple[list[Any], float]:
    """Answers, and the seconds they took."""
    begun = time.perf_counter()
    return answer(rows), time.perf_counter() - begun


def baseline_cell(
    *, report: Report, train: Sequence[str], labels: Sequence[int], test: Sequence[str], steps: int | None = None
) -> CellResult:
    """TF-IDF with logistic regression on the same rows; ``steps`` only says that a short timed start is wanted."""
    from variorum.tasks.baselines.linear import fit_and_predict

    rows = len(train)
    if steps is not None:
        fit_and_predict(train[:BATCH], [i % 2 for i in range(BATCH)], test[:1])  # what is imported grows with no rows
        train, labels, test = train[:BASELINE_PROBE], labels[:BASELINE_PROBE], test[:BASELINE_PROBE]
    begun = time.perf_counter()
    predicted, weights = fit_and_predict(train, labels, test)
    report(1)
    seconds = _since(begun) * rows / len(train)
    facts = {
        **_machine(),
        "parameters": weights,
        "seconds": seconds,
        "train_seconds": seconds,
        "step_seconds": [seconds],
        "rest_seconds": 0.0,
    }
    return CellResult(items=tuple(map(float, predicted)), curve=(), losses=(), facts=facts)


def pretrain_cell(
    *, report: Report, plan: Plan, folder: Path, looks: Sequence[int], unit: str, judged_length: int = 0,
    priced: bool = False, steps: int | None = None,
) -> CellResult:  # fmt: skip
    """Pretrain as ``plan`` says on the corpus in ``folder``; score every batch of held-out texts.

    Args:
        unit: of the scores, "bits per byte" or "nats per target".
        looks: step counts after which the held-out score enters the learning curve.
        judged_length: tokens of a held-out row; those of a training row if 0.
        priced: what it costs where it only reads is measured too, in a process of its own.
        steps: stop early (a measured start).
    """
    from variorum.training.run import deterministic
    from variorum.training.session import assemble

    begun = time.perf_counter()
    session = assemble(plan, folder, judged_length=judged_length)
    run, start = _Run(report, looks, lambda: _mean(_held(session, unit))), _since(begun)
    with deterministic():
        losses = run.follow(session.trainer.advance, plan.steps if steps is None else steps)
    last = time.perf_counter()
    items = _held(session, unit)
    rest = start + _since(last) * (1 + len(looks))
    curve = (*run.curve, (len(losses), _mean(items)))
    facts = _facts(session.model, begun, run, rest)
    if priced:
        facts |= _read(session.model, plan.settled.length, facts)
    return CellResult(items=items, curve=curve, losses=losses, facts=facts)


def _read(model: Built, length: int, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a model costs where it only reads."""
    from variorum.study import reads

    reader = reads.Reader(model, length)
    return _priced(reader, reads.WAY, reader.rows(), reader.rows(), facts)


def _priced(
    learned: Kept, way: str, one_by_one: Sequence[Any], together: Sequence[Any], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Further facts of a cell: what answers cost, and that a process beside its own was there to measure it."""
    from variorum.inference.peak import resident_bytes
    from variorum.study.answering import measure

    begun, beside = time.perf_counter(), resident_bytes()
    costs, height = measure(learned, way, one_by_one, together)
    return {"costs": costs, "priced_seconds": _since(begun), "peak_bytes": max(facts["peak_bytes"], beside + height)}


def tried_cell(*, report: Report, plan: Plan, folder: Path, steps: int | None = None) -> CellResult:
    """Pretrain as ``plan`` says on a part of the training texts; score the rest of them, in nats per target.

    A rate that is too high is an answer too: a trial that diverges has no scores.

    Args:
        steps: stop early (a measured start).
    """
    from variorum.errors import RunFailed
    from variorum.training.run import deterministic
    from variorum.training.session import assemble, within_training

    begun = time.perf_counter()
    session = assemble(plan, folder, sides=within_training)
    run = _Run(report, (), lambda: 0.0)
    losses: tuple[float, ...] = ()
    items: tuple[float, ...] = ()
    with deterministic(), contextlib.suppress(RunFailed):
        losses = run.follow(session.trainer.advance, plan.steps if steps is None else steps)
        items = _held(session, "nats per target")
    rest = _since(begun) - sum(run.step_seconds)
    return CellResult(items=items, curve=(), losses=losses, facts=_facts(session.model, begun, run, rest))


def _held(session: Session, unit: str) -> tuple[float, ...]:
    """The score of each held-out batch, whose questions are the same in every cell."""
    from variorum.training.evaluate import answered

    tokenizer, found = session.model.tokenizer, []
    for example, part in answered(session.trainer.loss, session.objective, session.held, seed=0):
        units = float(part.count)
        if unit == "bits per byte":
            ids = example.targets[example.targets >= 0].tolist()
            assert tokenizer is not None
            units = math.log(2) * len(tokenizer.decode(ids, skip_special=True).encode())
        found.append(float(part.total) / max(1.0, units))
    return tuple(found)


def _mean(items: Sequence[float]) -> float:
    return sum(items) / len(items)


class _Run:
    """Training with progress and a learning curve; remembers the time of each step."""

    def __init__(self, report: Report, looks: Sequence[int], score: Callable[[], float]) -> None:
        self.report, self.looks, self.score = report, frozenset(looks), score
        self.curve: list[tuple[int, float]] = []
        self.step_seconds: list[float] = []
        self._mark = 0.0

    def train(
        self,
        model: torch.nn.Module,
        objective: Any,
        pieces: Callable[[int], Sequence[Batch]],
        settings: Optimisation,
        *,
        seed: int,
        steps: int | None,
    ) -> tuple[float, ...]:
        from variorum.training.loop import train

        self._mark = time.perf_counter()
        log = train(model, objective, pieces, settings, seed=seed, after_step=self._after, steps=steps)
        return tuple(record.loss for record in log)

    def follow(self, advance: Callable[[], StepRecord], steps: int) -> tuple[float, ...]:
        """Do so many steps."""
        self._mark = time.perf_counter()
        losses = []
        for _ in range(steps):
            record = advance()
            losses.append(record.loss)
            self._after(record)
        return tuple(losses)

    def _after(self, record: StepRecord) -> None:
        self.step_seconds.append(time.perf_counter() - self._mark)
        if record.step + 1 in self.looks:
            self.curve.append((record.step + 1, self.score()))
        self.report(record.step + 1)
        self._mark = time.perf_counter()


def _load(path: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(path)


def _rows(held: dict[str, torch.Tensor], side: str) -> list[list[int]]:
    ids, ends = held[f"{side}_ids"].tolist(), held[f"{side}_ends"].tolist()
    return [ids[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _since(moment: float) -> float:
    return time.perf_counter() - moment


def _facts(model: torch.nn.Module, begun: float, run: _Run, rest: float) -> dict[str, Any]:
    """What is recorded of a cell; ``rest`` is what all of it takes beside its steps, guessed by a timed start."""
    return {
        **_machine(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": _since(begun),
        "train_seconds": sum(run.step_seconds),
        "rest_seconds": rest,
        "step_seconds": [round(s, 4) for s in run.step_seconds],
    }


def _machine() -> dict[str, Any]:
    import torch

    from variorum.inference.peak import peak_bytes

    return {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "peak_bytes": peak_bytes(),
    }
