"""``pretrain`` and ``resume`` as calls: plan first, then run; the same call again goes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from variorum.errors import OverBudget, UsageError
from variorum.training import shards
from variorum.training.prepare import Measured, check_space, cores, duration, prepare
from variorum.training.progress import clock
from variorum.training.records import check_viewer
from variorum.training.run import Result, go_on, stoppable
from variorum.training.rundir import DATA, Asked, Plan, check_folder, locked, read_run, write_run
from variorum.training.wishes import PLAINLY, USUAL, How, Keeping
from variorum.training.world import ALONE, World

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a plan says before the first step."""

    steps: int
    seconds: tuple[float, float]
    memory: int
    disk: int
    parameters: int
    tokens: int
    epochs: float


def pretrain(
    asked: Asked, out: Path, *, how: How = PLAINLY, keeping: Keeping = USUAL, dry_run: bool = False, say: Say,
    world: World = ALONE,
) -> Result | Forecast:  # fmt: skip
    """Train a model as asked in the folder ``out``; or go on where an earlier call stopped.

    Each process of ``world`` makes this call.

    Raises:
        UsageError: ``out`` holds something else. OverBudget: it does not fit. What preparing and running raise.
    """
    check_viewer(keeping.track)
    with _held(out, world):
        forecast = None
        if world.first(lambda: check_folder(out, asked)):
            plan = read_run(out)[1]
        else:
            threads = how.threads or cores(world)
            plan, measured = prepare(asked, out, workers=how.workers, threads=threads, say=say, world=world)
            plan = dataclasses.replace(
                plan, every=how.eval_every or plan.every, saves=how.save_every or how.eval_every or plan.saves,
                patience=how.patience,
            )  # fmt: skip
            if how.patience and not shards.facts_of(out / DATA)["validation"]["documents"]:
                raise UsageError("nothing is held out to stop early by", remedy="give --validation a share above 0")
            forecast = _forecast(out, plan, measured, keeping)
            say(render(plan, forecast))
            if how.time_limit is not None and forecast.seconds[1] > 60 * how.time_limit:
                raise OverBudget(
                    f"takes up to {clock(forecast.seconds[1])}, {clock(60 * how.time_limit)} is allowed",
                    remedy="give a smaller --budget, or a larger --time-limit",
                )
            if dry_run:
                return forecast
            world.first(lambda: write_run(out, asked, plan))
        found = _run(out, plan, keeping, None, say, world)
        if forecast is not None:
            found = dataclasses.replace(found, planned_seconds=forecast.seconds, planned_peak=forecast.memory)
        return found


def resume(
    folder: Path, *, checkpoint: str | None = None, keeping: Keeping = USUAL, say: Say, world: World = ALONE
) -> Result:  # fmt: skip
    """Go on with the run in ``folder``, whatever number of processes began it.

    Raises:
        NotFound: no run, or no such checkpoint. DamagedFile: the checkpoint that was named is not whole.
    """
    check_viewer(keeping.track)
    plan = read_run(folder)[1]
    with _held(folder, world):
        return _run(folder, plan, keeping, checkpoint, say, world)


def _run(folder: Path, plan: Plan, keeping: Keeping, checkpoint: str | None, say: Say, world: World) -> Result:
    with stoppable() as stopped:
        return go_on(folder, plan, keeping=keeping, checkpoint=checkpoint, say=say, stopped=stopped, world=world)


@contextmanager
def _held(folder: Path, world: World) -> Iterator[None]:
    """The run's lock, which one process holds for all; in the end torch has the threads that it had."""
    import torch

    with ExitStack() as stack:
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        world.first(lambda: stack.enter_context(locked(folder)))
        yield


def _forecast(out: Path, plan: Plan, measured: Measured, keeping: Keeping) -> Forecast:
    from variorum.training.session import assemble

    facts, feed = shards.facts_of(out / DATA), assemble(plan, out).feed
    return Forecast(
        steps=plan.steps, seconds=duration(plan, measured), memory=measured.peak,
        disk=check_space(out, measured, keeping.keep), parameters=measured.parameters,
        tokens=facts["train"]["tokens"], epochs=feed.epochs(plan.steps - 1),
    )  # fmt: skip


def render(plan: Plan, forecast: Forecast) -> str:
    """The plan for people: what is trained, how, and what it will take."""
    settled, (low, high) = plan.settled, forecast.seconds
    shown = {name: f"{getattr(settled, name)}" for name in settled.why}
    width = max(map(len, shown.values()))
    rows = [f"  {name:12}  {value:{width}}  {settled.why[name]}" for name, value in shown.items()]
    return "\n".join([
        f"{plan.spec.name}: {forecast.parameters:,} parameters, {plan.spec.objective.kind}",
        *rows,
        f"  {forecast.tokens:,} training tokens, read {forecast.epochs:.2f} times",
        f"  {plan.steps:,} steps: {clock(low)} to {clock(high)}, memory {forecast.memory / 2**20:,.0f} MiB, "
        f"disk up to {forecast.disk / 2**20:,.0f} MiB, {plan.machine['threads']} threads"
        + (f" in each of {plan.machine['processes']} processes" if plan.machine["processes"] > 1 else ""),
    ])  # fmt: skip
