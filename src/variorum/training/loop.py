"""The training loop: draw, corrupt, score, step, report. One screen, no framework; it writes no files.

``Trainer`` is a run in memory. Its interface, which checkpoints and several processes build on::

    trainer = Trainer(model, objective, pieces, settings, seed=0)   # compute=…, world=… where they are not the usual
    record = trainer.advance()             # one optimiser step; the weights are untouched if it raises
    trainer.step                           # steps done, the whole cursor: ``pieces`` is a pure function of it
    trainer.networks                       # "model" and the objective's own networks, by name
    trainer.state(); trainer.restore(...)  # everything a later process needs to go on bit for bit

``world`` is this process's place among several that train one model: rank r takes micro-batches r, r + size, … of each
step, counts and losses are summed over all, and gradients averaged.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from variorum.errors import RunFailed, UsageError
from variorum.inference.peak import forget_shapes, give_back
from variorum.objectives.base import together
from variorum.training.optimiser import Optimisation, clip, optimisers, set_rate
from variorum.training.state import State, read_state, write_state
from variorum.training.streams import CORRUPTION, DROPOUT, stream, stream_seed
from variorum.training.world import ALONE, World

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch, Corrupted, Objective

PiecesOfStep = Callable[[int], "Sequence[Batch]"]
"""Step number to the micro-batches of that step; a pure function, so that any step can be drawn again."""
MODEL = "model"
SWEPT = 32
"""Steps between two moments at which freed memory goes back to the system."""


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """One optimiser step: ``loss`` in nats per target over the whole step, ``norm`` before clipping."""

    step: int
    loss: float
    targets: int
    rate: float
    norm: float


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Where and how finely a step is computed.

    Attributes:
        device: where the networks are.
        precision: of the products; weights and optimiser stay in float32.
        recompute: keep only each layer's input and compute the rest again in the backward pass.
    """

    device: str = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    recompute: bool = False


HERE = Compute()


class Trainer:
    """A model in training: its networks, their optimisers, the stream of dropout, and the step it stands at.

    Args:
        model: trained in place.
        pieces: step number → micro-batches; gradients are those of one batch holding all of them.
        seed: names the streams of dropout and corruption; data order is inside ``pieces``.
        compute: device, precision, recomputation.
        world: the processes that share the work.
    """

    def __init__(
        self, model: torch.nn.Module, objective: Objective, pieces: PiecesOfStep, settings: Optimisation, *, seed: int,
        compute: Compute = HERE, world: World = ALONE,
    ) -> None:  # fmt: skip
        from variorum.training.whole import Whole

        forget_shapes()
        self.model, self.objective, self.pieces = model, objective, pieces
        self.settings, self.seed, self.compute, self.world = settings, seed, compute, world
        self.networks: Mapping[str, torch.nn.Module] = {MODEL: model, **objective.networks(model)}
        self.loss = world.spread(Whole(objective, model, self.networks))
        self.named = dict(_trained(self.networks))
        self.optimisers = optimisers(self.named, settings)
        self.dropout = Dropout(stream_seed(seed, DROPOUT if world.rank == 0 else f"{DROPOUT}/{world.rank}"))
        self.step = 0
        if compute.recompute:
            from variorum.training.recompute import recompute_layers

            recompute_layers(self.networks.values())

    def advance(self) -> StepRecord:
        """Do one optimiser step.

        Raises:
            RunFailed: the loss or a gradient is not finite; the weights stay as they were before that step.
        """
        step = self.step
        for network in self.networks.values():
            network.train()
        with self.dropout.running():
            loss, targets = self._backward(step)
        norm = clip(self.named.values(), self.settings.clip)
        try:
            _healthy(loss, norm, step)
            rate = self.settings.rate * self.settings.factor(step)
            for optimiser in self.optimisers:
                set_rate(optimiser, rate)
                optimiser.step()
        finally:
            for optimiser in self.optimisers:
                optimiser.zero_grad(set_to_none=True)
        self.objective.settle(self.model)
        self.step += 1
        if self.step % SWEPT == 0:
            give_back()
        return StepRecord(step=step, loss=loss, targets=targets, rate=rate, norm=norm)

    def _backward(self, step: int) -> tuple[float, int]:
        """Accumulate gradients of the mean over the targets of *all* pieces; returns that mean and the count."""
        rank, size, pieces = self.world.rank, self.world.size, self.pieces(step)
        if len(pieces) % size:  # some would wait for the others for ever
            raise UsageError(
                f"{len(pieces)} micro-batches cannot be shared by {size} processes", where=f"step {step}",
                remedy="cut the batch into a multiple of the processes",
            )  # fmt: skip
        mine = [(i, piece) for i, piece in enumerate(pieces) if i % size == rank]
        examples = [self.objective.corrupt(piece, self._rng(step, i)) for i, piece in mine]
        targets = int(self.world.sum(sum(example.count for example in examples)))
        examples = [on_device(example, self.compute.device) for example in examples]
        with self._precision():
            examples = together(self.objective, self.model, examples, self.world.sum)
        total = 0.0
        for example in examples:
            with self._precision():
                part = self.loss(example)
            (part.total / (max(1, targets) / size)).backward()
            total += part.total.item()
        return self.world.sum(total) / max(1, targets), targets

    def _rng(self, step: int, piece: int) -> torch.Generator:
        return stream(self.seed, f"{CORRUPTION}/{step}/{piece}")

    def _precision(self) -> Any:
        import torch

        if self.compute.precision == "float32":
            return nullcontext()
        return torch.autocast(torch.device(self.compute.device).type, dtype=torch.bfloat16)

    def state(self) -> State:
        """Weights, optimiser, random streams and cursor; tensors are the live ones, not copies."""
        return write_state(self.networks, self.named, self.optimisers, self.dropout.states, self.step)

    def restore(self, state: State) -> None:
        """Stand where ``state`` was taken.

        Raises:
            DamagedFile: it is of another model or optimiser.
        """
        self.step = read_state(state, self.networks, self.named, self.optimisers, self.dropout.states)


class Dropout:
    """The stream of dropout: torch's own generators, in this state while a step runs and the caller's otherwise."""

    def __init__(self, seed: int) -> None:
        import torch

        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.states = dict(zip(_devices(), _states(), strict=True))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Draw from this stream; the caller's is put back at the end."""
        before = _states()
        _put(list(self.states.values()))
        try:
            yield
        finally:
            self.states.update(zip(_devices(), _states(), strict=True))
            _put(before)


def _devices() -> list[str]:
    import torch

    return ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]


def _states() -> list[torch.Tensor]:
    import torch

    return [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]


def _put(states: Sequence[torch.Tensor]) -> None:
    import torch

    torch.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state_all(list(states[1:]))


def train(
    model: torch.nn.Module,
    objective: Objective,
    pieces: PiecesOfStep,
    settings: Optimisation,
    *,
    seed: int,
    after_step: Callable[[StepRecord], None] | None = None,
    steps: int | None = None,
) -> list[StepRecord]:
    """Train ``model`` in place, from the first step on.

    Args:
        after_step: called after every step, for progress and held-out scores.
        steps: stop early after this many steps (a measured start); the schedule still spans ``settings.steps``.

    Raises:
        RunFailed: as :meth:`Trainer.advance`.
    """
    trainer = Trainer(model, objective, pieces, settings, seed=seed)
    log: list[StepRecord] = []
    for _ in range(settings.steps if steps is None else steps):
        log.append(trainer.advance())
        if after_step is not None:
            after_step(log[-1])
    return log


def on_device(example: Corrupted, device: str) -> Corrupted:
    """``example`` with its tensors on ``device``."""
    import torch

    if torch.device(device).type == "cpu":
        return example
    return _moved(example, device)


def _moved(value: Any, device: str) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: _moved(item, device) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _moved(getattr(value, f.name), device) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    return value


def _trained(networks: Mapping[str, torch.nn.Module]) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Every parameter that learns, once, under ``network/name``."""
    seen: set[int] = set()
    named = ([(f"{key}/{name}", p) for name, p in network.named_parameters()] for key, network in networks.items())
    for name, parameter in itertools.chain.from_iterable(named):
        if parameter.requires_grad and id(parameter) not in seen:
            seen.add(id(parameter))
            yield name, parameter


def _healthy(loss: float, norm: float, step: int) -> None:
    if not math.isfinite(loss) or not math.isfinite(norm):
        raise RunFailed(
            f"loss {loss:g}, gradient norm {norm:g}",
            where=f"step {step}",
            remedy="the weights are those of the step before; lower the learning rate or warm up for longer",
        )
