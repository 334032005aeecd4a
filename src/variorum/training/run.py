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
from variorum.inference.peak import peak_bytes
from variorum.model import Model
from variorum.spec.heads import VocabularyHead
from variorum.training.evaluate import Score
from variorum.training.loop import MODEL as MAIN
from variorum.training.loop import StepRecord
from variorum.training.progress import Progress
from variorum.training.records import METRICS, SPEED, Log, Mirror, Viewer, mirror
from variorum.training.rundir import CHECKPOINTS, DATA, MODEL, Plan, machine
from variorum.training.session import Session, assemble
from variorum.training.snapshots import OnFull, Snapshot, Snapshots, patiently

Say = Callable[[str], None]
FULL_DISK = (28, 122, 27)  # ENOSPC, EDQUOT, EFBIG


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """What a user may say about what is kept; none of it changes the weights.

    Args:
        keep: Snapshots that stay; two at least.
        on_disk_full: End the run, or wait until there is room.
        track: A viewer that is fed too, beside metrics.jsonl.
    """

    keep: int = 2
    on_disk_full: OnFull = "stop"
    track: Viewer | None = None


USUAL = Keeping()


@dataclass(kw_only=True)
class Result:
    """How a run ended.

    Attributes:
        ended: "finished", or "stopped early", for want of a better score.
        seconds: of this process. score: on held-out text, the last one.
    """

    folder: Path
    steps: int
    ended: str
    loss: float
    score: Score | None
    seconds: float
    peak: int


def go_on(
    folder: Path, plan: Plan, *, keeping: Keeping = USUAL, checkpoint: str | None = None, say: Say,
    stopped: Callable[[], bool] = lambda: False,
) -> Result:  # fmt: skip
    """Train from the newest whole snapshot, or from the beginning, to the end.

    Args:
        checkpoint: the snapshot to start from, by name; the newest whole one if absent.
        stopped: asked after each step; where it says so, a snapshot is written and ``KeyboardInterrupt`` raised.

    Raises:
        RunFailed: the loss is not finite. OverBudget: the disk is full. DamagedFile: the corpus is not whole.
    """
    import torch

    torch.set_num_threads(plan.machine["threads"])
    here = machine(plan.machine["threads"])
    if here != plan.machine:
        other = ", ".join(f"{name} {plan.machine[name]} then, {here[name]} now" for name in here
                          if here[name] != plan.machine.get(name))  # fmt: skip
        say(f"the machine is another one ({other}): the run goes on, but not to the last bit")
    manifest.verify(folder / DATA)
    run = _Run(folder, plan, keeping, say)
    run.start(checkpoint)
    with _deterministic():
        return run.finish(stopped)


@dataclass
class _Run:
    folder: Path
    plan: Plan
    keeping: Keeping
    say: Say
    best: float = math.inf
    since: int = 0
    loss: float = math.nan
    score: Score | None = None
    saved: int = -1
    begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.session: Session = assemble(self.plan, self.folder)
        self.snapshots = Snapshots(
            self.folder / CHECKPOINTS, keep=self.keeping.keep, on_full=self.keeping.on_disk_full, say=self.say
        )
        self.log, self.speed = Log(self.folder / METRICS), Log(self.folder / SPEED)
        self.mirror: Mirror | None = mirror(self.keeping.track, self.folder)

    def start(self, checkpoint: str | None) -> None:
        """Stand where the newest whole snapshot was taken."""
        found: Snapshot | None = self.snapshots.named(checkpoint) if checkpoint else self.snapshots.newest()
        if found is not None:
            self.session.trainer.restore(found.state)
            facts = found.facts
            self.best, self.since, self.loss = facts["best"], facts["since"], facts["loss"]
            self.score = None if facts["score"] is None else Score(**facts["score"])
            self.saved = found.state.step
            self.say(f"going on from step {found.state.step:,}")
        for log in (self.log, self.speed):
            log.cut(self.session.trainer.step)

    def finish(self, stopped: Callable[[], bool]) -> Result:
        """Every step that is left, and what comes after the last."""
        trainer, plan = self.session.trainer, self.plan
        progress = Progress("step", plan.steps, trainer.step)
        pace = _Pace()
        try:
            while trainer.step < plan.steps and not self._enough:
                self._advance(pace)
                progress.at(trainer.step, f"loss {self.loss:.3f}{_words(self.score)}")
                if stopped():
                    self._save()
                    raise KeyboardInterrupt
        finally:
            progress.close()
            if self.mirror is not None:
                self.mirror.close()
        self._save()
        self._publish()
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
            self.speed.add(pace.row(trainer.step))
        if trainer.step % plan.saves == 0:
            self._save()

    def _note(self, record: StepRecord) -> None:
        self.loss = record.loss
        row = {"loss": record.loss, "rate": record.rate, "norm": record.norm, "targets": record.targets}
        self.log.add({"step": record.step + 1, **row})
        if self.mirror is not None:
            self.mirror.add(record.step + 1, row)

    def _evaluate(self) -> None:
        score = self.session.score()
        if score is None:
            return
        self.score = score
        row: dict[str, Any] = {"held_out": score.loss, "low": score.low, "high": score.high}
        if speaks(self.session):
            row |= {f"perplexity{end}": perplexity(value) for end, value in
                    (("", score.loss), ("_low", score.low), ("_high", score.high))}  # fmt: skip
        self.log.add({"step": self.session.trainer.step, **row})
        if self.mirror is not None:
            self.mirror.add(self.session.trainer.step, row)
        self.since = 0 if score.loss < self.best else self.since + 1
        self.best = min(self.best, score.loss)

    def _save(self) -> None:
        """The logs, then a snapshot of a state that is finite throughout."""
        state = self.session.trainer.state()
        if state.step == self.saved:
            return
        broken = next((name for name, t in state.tensors.items() if t.is_floating_point() and not t.isfinite().all()),
                      None)  # fmt: skip
        if broken is not None:
            raise RunFailed("is not finite", where=f"{broken} at step {state.step}", remedy="lower the learning rate")
        patiently(self._sync, self.keeping.on_disk_full, self.say)
        score = None if self.score is None else vars(self.score)
        facts = {"best": self.best, "since": self.since, "loss": self.loss, "score": score}
        self.snapshots.save(state, facts)
        self.saved = state.step

    def _sync(self) -> None:
        try:
            self.log.sync()
            self.speed.sync()
        except OSError as error:
            if error.errno not in FULL_DISK:
                raise
            free = shutil.disk_usage(self.folder).free
            raise OverBudget(
                f"cannot write ({error.strerror}), {free:,} bytes free", where=str(self.log.path),
                remedy="free space and run the same command again",
            ) from error  # fmt: skip

    def _publish(self) -> None:
        """Every network as a published directory, and the card."""
        from variorum.training.card import write_card

        for name, network in self.session.trainer.networks.items():
            network = getattr(network, "module", network)
            if isinstance(network, Model):
                network.tokenizer = self.session.model.tokenizer
                place = self.folder / (MODEL if name == MAIN else name)
                patiently(lambda n=network, p=place: save_model(n.eval(), p), self.keeping.on_disk_full, self.say)  # type: ignore[misc]
        write_card(self.folder, self.session, self.plan, self.score)


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
def _deterministic() -> Iterator[None]:
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
def stoppable() -> Iterator[Callable[[], bool]]:
    """Hear an interrupt or a termination between two steps; a second one acts at once."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def hear(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, hear)
    try:
        yield lambda: bool(asked)
    except KeyboardInterrupt:
        if asked and asked[0] == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
