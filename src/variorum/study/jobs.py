"""What a worker computes: one cell from a spec, data and a seed to item scores, or a few steps of it, timed.

Everything here runs in a child process with pinned threads. The data are tensors in one file, made by
`prepare`; the study's design never reaches this far.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variorum.study.cells import CellResult
from variorum.study.executor import Report
from variorum.training.optimiser import Optimisation

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch
    from variorum.spec.model import Model
    from variorum.training.loop import StepRecord
    from variorum.training.rundir import Plan
    from variorum.training.session import Session

TIMED = 40
"""Texts that are answered one by one, for the time that takes."""
BASELINE_PROBE = 500
"""Rows that time the baseline; its cost grows with the rows."""


def causal_cell(
    *,
    report: Report,
    spec: Model,
    data: Path,
    settings: Optimisation,
    seed: int,
    batch: int,
    looks: Sequence[int],
    steps: int | None = None,
) -> CellResult:
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

    run = _Run(report, looks, lambda: float(score().mean()))
    losses = run.train(model, Causal(), pieces, settings, seed=seed, steps=steps)
    items = tuple(score().tolist())
    curve = (*run.curve, (len(losses), sum(items) / len(items)))
    return CellResult(items=items, curve=curve, losses=losses, facts=_facts(model, begun, run))


def label_cell(
    *,
    report: Report,
    spec: Model,
    data: Path,
    settings: Optimisation,
    seed: int,
    batch: int,
    looks: Sequence[int],
    curve_rows: int,
    classes: int,
    pad: int,
    steps: int | None = None,
) -> CellResult:
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

    run = _Run(report, looks, score)
    losses = run.train(model, Labels(), pieces, settings, seed=seed, steps=steps)
    items = predict(model, test, pad=pad)[0]
    final = float(macro_f1(confusion(truth[:curve_rows], items[:curve_rows].numpy(), classes)))
    return CellResult(
        items=tuple(items.tolist()),
        curve=(*run.curve, (len(losses), final)),
        losses=losses,
        facts=_facts(model, begun, run),
    )


def probed_cell(
    *, report: Report, plan: Plan, folder: Path, rows: Mapping[str, Any], how: Mapping[str, Any],
    steps: int | None = None,
) -> CellResult:  # fmt: skip
    """Pretrain as ``plan`` says, then fine-tune the model on labelled rows and predict every test row.

    Args:
        rows: ``train`` and ``test`` texts, and the ``labels`` of the former.
        how: fields of :class:`~variorum.tasks.classify.Classifier`.
        steps: a timed start of so many steps of both.
    """
    import tempfile

    from variorum.checkpoint import save
    from variorum.tasks.classify import Classifier
    from variorum.training.run import deterministic
    from variorum.training.session import assemble

    begun = time.perf_counter()
    session = assemble(plan, folder)
    run = _Run(report, (), lambda: 0.0)
    with deterministic():
        losses = run.follow(session.trainer.advance, plan.steps if steps is None else steps)
    train, labels, test = rows["train"], rows["labels"], rows["test"]
    if steps is not None:
        train, labels, test = train[: 32 * steps], labels[: 32 * steps], test[:32]
    with tempfile.TemporaryDirectory(prefix="variorum-probe-") as place:
        save(session.model, f"{place}/model")
        fitted = Classifier(model=f"{place}/model", validation=0.0, random_state=plan.seed, **how)
        predicted = fitted.fit(list(train), list(labels)).predict(list(test))
    items = tuple(float(one) for one in predicted)
    return CellResult(items=items, curve=(), losses=losses, facts=_facts(session.model, begun, run))


def classifier_cell(
    *, report: Report, model: str, state: str, train: Sequence[str], labels: Sequence[int], test: Sequence[str],
    seed: int, how: Mapping[str, Any], steps: int | None = None,
) -> CellResult:  # fmt: skip
    """Fine-tune a model as a classifier and predict every test row; what one answer takes is among the facts.

    Args:
        state: of the model's files, which only decides what the cell is.
        how: fields of :class:`~variorum.tasks.classify.Classifier`.
        steps: a timed start of so many steps.
    """
    from variorum.tasks.classify import Classifier

    del state
    begun = time.perf_counter()
    if steps is not None:
        some = range(min(len(train), 32 * steps))
        train, labels, test = [train[i] for i in some], [labels[i] for i in some], test[:32]
        how = {**how, "epochs": 1}
    fitted = Classifier(model=model, validation=0.0, random_state=seed, **how).fit(list(train), list(labels))
    taken = fitted.how.steps(len(train))
    report(taken)
    pace = fitted.history_.seconds / taken
    predicted = fitted.predict(list(test))
    facts = {
        **_machine(), "parameters": sum(p.numel() for p in fitted.model_.parameters()),
        "seconds": time.perf_counter() - begun, "train_seconds": fitted.history_.seconds,
        "step_seconds": [round(pace, 4)] * taken, **_answering(fitted, test[:TIMED]),
    }  # fmt: skip
    losses = tuple(epoch.loss for epoch in fitted.history_.epochs)
    return CellResult(items=tuple(float(one) for one in predicted), curve=(), losses=losses, facts=facts)


def _answering(fitted: Any, texts: Sequence[str]) -> dict[str, float]:
    """Median and 95th percentile of the seconds that one text takes."""
    times = []
    for text in texts:
        begun = time.perf_counter()
        fitted.predict([text])
        times.append(time.perf_counter() - begun)
    times.sort()
    return {
        "answer_seconds": times[len(times) // 2],
        "answer_seconds_95": times[min(len(times) - 1, 95 * len(times) // 100)],
    }


def baseline_cell(
    *, report: Report, train: Sequence[str], labels: Sequence[int], test: Sequence[str], steps: int | None = None
) -> CellResult:
    """TF-IDF with logistic regression on the same rows; ``steps`` only says that a short timed start is wanted."""
    from variorum.tasks.baselines.linear import fit_and_predict

    begun = time.perf_counter()
    if steps is not None:
        train, labels, test = train[:BASELINE_PROBE], labels[:BASELINE_PROBE], test[:BASELINE_PROBE]
    predicted, weights = fit_and_predict(train, labels, test)
    report(1)
    seconds = time.perf_counter() - begun
    facts = {
        **_machine(),
        "parameters": weights,
        "seconds": seconds,
        "train_seconds": seconds,
        "step_seconds": [seconds],
    }
    return CellResult(items=tuple(map(float, predicted)), curve=(), losses=(), facts=facts)


def pretrain_cell(
    *, report: Report, plan: Plan, folder: Path, looks: Sequence[int], unit: str, steps: int | None = None
) -> CellResult:
    """Pretrain as ``plan`` says on the corpus in ``folder``; score every batch of held-out texts.

    Args:
        unit: of the scores, "bits per byte" or "nats per target".
        looks: step counts after which the held-out score enters the learning curve.
        steps: stop early (a measured start).
    """
    from variorum.training.run import deterministic
    from variorum.training.session import assemble

    begun = time.perf_counter()
    session = assemble(plan, folder)
    run = _Run(report, looks, lambda: _mean(_held(session, unit)))
    with deterministic():
        losses = run.follow(session.trainer.advance, plan.steps if steps is None else steps)
    items = _held(session, unit)
    curve = (*run.curve, (len(losses), _mean(items)))
    return CellResult(items=items, curve=curve, losses=losses, facts=_facts(session.model, begun, run))


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


def _facts(model: torch.nn.Module, begun: float, run: _Run) -> dict[str, Any]:
    return {
        **_machine(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": time.perf_counter() - begun,
        "train_seconds": sum(run.step_seconds),
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
