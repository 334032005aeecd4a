"""Carries a run through: step, evaluate, save, and leave the trained model as a published directory.

Killed anywhere and called again, it goes on from the newest whole snapshot and ends in the same bits.
"""

from __future__ import annotations

import math
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from variorum.checkpoint import manifest
from variorum.checkpoint import save as save_model
from variorum.errors import OverBudget, RunFailed
from variorum.files import FULL
from variorum.inference.peak import peak_bytes
from variorum.model import Model
from variorum.spec.heads import VocabularyHead
from variorum.training.evaluate import Score
from variorum.training.loop import MODEL as MAIN
from variorum.training.loop import StepRecord
from variorum.training.progress import Progress
from variorum.training.records import METRICS, Records, Unwritten
from variorum.training.rundir import CHECKPOINTS, DATA, MODEL, Plan, machine
from variorum.training.session import Session, assemble
from variorum.training.sharded import local
from variorum.training.snapshots import Snapshots, patiently, read
from variorum.training.wishes import USUAL, Keeping
from variorum.training.world import ALONE, World

Say = Callable[[str], None]


@dataclass(kw_only=True)
class Result:
    """How a run ended.

    Attributes:
        ended: "finished", or "stopped early", for want of a better score.
        seconds: of this process. score: on held-out text, the last one.
        planned_seconds, planned_peak: what was foretold, where the run was planned and carried out in one call.
    """

    folder: Path
    steps: int
    ended: str
    loss: float
    score: Score | None
    seconds: float
    peak: int
    planned_seconds: tuple[float, float] | None = None
    planned_peak: int | None = None


def go_on(
    folder: Path, plan: Plan, *, keeping: Keeping = USUAL, checkpoint: str | None = None, say: Say,
    stopped: Callable[[], int] = lambda: 0, world: World = ALONE,
) -> Result:  # fmt: skip
    """Train from the newest whole snapshot, or from the beginning, to the end.

    Args:
        checkpoint: the snapshot to start from, by name; the newest whole one if absent.
        stopped: asked after each step for a signal; where there is one, in whichever process, a snapshot is written and
            the run ends.
        world: the processes that carry it out; each makes this call.

    Raises:
        RunFailed: the loss is not finite. OverBudget: the disk is full. DamagedFile: the corpus is not whole.
        KeyboardInterrupt, SystemExit: it was stopped.
    """
    import torch

    torch.set_num_threads(plan.machine["threads"])
    here = machine(plan.machine["threads"], world)
    if here != plan.machine:
        other = ", ".join(f"{name} {plan.machine.get(name)} then, {here[name]} now" for name in here
                          if here[name] != plan.machine.get(name))  # fmt: skip
        say(f"the machine is another one ({other}): the run goes on, but not to the last bit")
    world.first(lambda: manifest.verify(folder / DATA))
    run = _Run(folder, plan, keeping, say, world)
    run.start(checkpoint)
    with deterministic():
        return run.finish(stopped)


@dataclass
class _Run:
    folder: Path
    plan: Plan
    keeping: Keeping
    say: Say
    world: World
    best: float = math.inf
    since: int = 0
    loss: float = math.nan
    score: Score | None = None
    saved: int = -1
    begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.session: Session = assemble(self.plan, self.folder, self.world)
        self.snapshots = Snapshots(
            self.folder / CHECKPOINTS, keep=self.keeping.keep, on_full=self.keeping.on_disk_full, say=self.say,
            world=self.world,
        )  # fmt: skip

    def start(self, checkpoint: str | None) -> None:
        """Stand where the newest whole snapshot was taken."""
        trainer, shots = self.session.trainer, self.snapshots
        found = shots.named(checkpoint, trainer.state()) if checkpoint else shots.newest(trainer.state())
        if found is not None:
            trainer.restore(found.state)
            facts = found.facts
            self.best, self.since, self.loss = facts["best"], facts["since"], facts["loss"]
            self.score = None if facts["score"] is None else Score(**facts["score"])
            self.saved = found.state.step
            self.say(f"going on from step {found.state.step:,}")
        leads = self.world.rank == 0
        self.records = Records(self.folder, self.keeping.track, trainer.step) if leads else Unwritten()

    def finish(self, stopped: Callable[[], int]) -> Result:
        """Every step that is left, and what comes after the last."""
        trainer, plan = self.session.trainer, self.plan
        progress = Progress("step", plan.steps, trainer.step)
        pace = _Pace()
        try:
            while trainer.step < plan.steps and not self._enough:
                self._advance(pace)
                progress.at(trainer.step, f"loss {self.loss:.3f}{_words(self.score)}")
                if number := int(self.world.most(stopped())):
                    self._save()
                    raise SystemExit(128 + number) if number == signal.SIGTERM else KeyboardInterrupt
        finally:
            progress.close()
            self.records.close()
        self._save()
        self.world.first(self._publish)
        ended = "stopped early" if self._enough else "finished"
        seconds = time.monotonic() - self.begun
        return Result(
            folder=self.folder, steps=trainer.step, ended=ended, loss=self.loss, score=self.score, seconds=seconds,
            peak=peak_bytes(),
        )  # fmt: skip

    @property
    def _enough(self) -> bool:
        return 0 < self.plan.patience <= self.since

    def _advance(self, pace: _Pace) -> None:
        """One step, and what is due after it."""
        trainer, plan = self.session.trainer, self.plan
        try:
            record = trainer.advance()
        except RunFailed as error:
            last = f"{CHECKPOINTS}/step-{self.saved:08} is the last one saved" if self.saved >= 0 else "none was saved"
            raise RunFailed(error.what, where=error.where, remedy=f"{error.remedy}; {last}") from error
        self._note(record)
        pace.step(record.targets)
        if trainer.step % plan.every == 0 or trainer.step == plan.steps:
            self._evaluate()
            self.records.time(pace.row(trainer.step))
        if trainer.step % plan.saves == 0:
            self._save()

    def _note(self, record: StepRecord) -> None:
        self.loss = record.loss
        row = {"loss": record.loss, "rate": record.rate, "norm": record.norm, "targets": record.targets}
        self.records.add(record.step + 1, row)

    def _evaluate(self) -> None:
        score = self.session.score()
        if score is None:
            return
        self.score = score
        row: dict[str, Any] = score.row()
        if speaks(self.session):
            row |= {f"perplexity{end}": perplexity(value) for end, value in
                    (("", score.loss), ("_low", score.low), ("_high", score.high))}  # fmt: skip
        self.records.add(self.session.trainer.step, row)
        loss = self.world.most(score.loss)
        self.since = 0 if loss < self.best else self.since + 1
        self.best = min(self.best, loss)

    def _save(self) -> None:
        """The logs, then a snapshot of a state that is finite throughout."""
        state = self.session.trainer.state()
        if state.step == self.saved:
            return
        broken = next((name for name, t in state.tensors.items() if not local(t).isfinite().all()), None)
        if self.world.most(broken is not None):
            where = f"{broken or 'another process'} at step {state.step}"
            raise RunFailed("is not finite", where=where, remedy="lower the learning rate")
        self.world.first(lambda: patiently(self._sync, self.keeping.on_disk_full, self.say))
        score = None if self.score is None else vars(self.score)
        facts = {"best": self.best, "since": self.since, "loss": self.loss, "score": score}
        self.snapshots.save(state, facts)
        self.saved = state.step

    def _sync(self) -> None:
        try:
            self.records.sync()
        except OSError as error:
            if error.errno not in FULL:
                raise
            free = shutil.disk_usage(self.folder).free
            raise OverBudget(
                f"cannot write ({error.strerror}), {free:,} bytes free", where=str(self.folder / METRICS),
                remedy="free space and run the same command again",
            ) from error  # fmt: skip

    def _publish(self) -> None:
        """Every network as a published directory, and the card."""
        from variorum.training.card import write_card

        session = self.session if self.world.size == 1 else self._gathered()
        for name, network in session.trainer.networks.items():
            if isinstance(network, Model):
                network.tokenizer = session.model.tokenizer
                place = self.folder / (MODEL if name == MAIN else name)
                patiently(lambda n=network, p=place: save_model(n.eval(), p), self.keeping.on_disk_full, self.say)  # type: ignore[misc]
        write_card(self.folder, session, self.plan, self.score)

    def _gathered(self) -> Session:
        """What all processes trained, whole: the last snapshot as this process reads it alone."""
        session = assemble(self.plan, self.folder)
        session.trainer.restore(read(self.snapshots.at(self.saved), session.trainer.state()).state)
        return session


def speaks(session: Session) -> bool:
    """Whether the loss is that of words alone, so that its exponential is a perplexity."""
    head = session.model.spec.architecture.heads[session.objective.requires[0]]
    return isinstance(head, VocabularyHead) and not session.objective.terms


def perplexity(loss: float) -> float:
    """e to the loss; infinite where that is beyond floats."""
    return math.exp(loss) if loss < 700 else math.inf


def _words(score: Score | None) -> str:
    return "" if score is None else f", held out {score.loss:.3f}"


class _Pace:
    """Targets and seconds since the last evaluation."""

    def __init__(self) -> None:
        self.begun, self.targets, self.steps = time.monotonic(), 0, 0

    def step(self, targets: int) -> None:
        self.targets, self.steps = self.targets + targets, self.steps + 1

    def row(self, step: int) -> dict[str, float]:
        seconds = max(1e-9, time.monotonic() - self.begun)
        row = {"step": step, "seconds_per_step": seconds / self.steps, "targets_per_second": self.targets / seconds,
               "peak_bytes": peak_bytes()}  # fmt: skip
        self.__init__()  # type: ignore[misc]
        return row


@contextmanager
def deterministic() -> Iterator[None]:
    """Only algorithms that give the same bits each time."""
    import os

    import torch

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@contextmanager
def stoppable() -> Iterator[Callable[[], int]]:
    """Hear an interrupt or a termination between two steps, by its number; a second one acts at once."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: 0
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def hear(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, hear)
    try:
        yield lambda: asked[0] if asked else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
