"""One process of several, started by ``torchrun`` from the tests: trains tiny models, and says what it saw.

``python -m tests.training.processes FOLDER STEPS NAMES STRATEGIES [FROM]``: from the first step, or from the newest
snapshot in FROM; writes a snapshot into FOLDER/NAME-STRATEGY-N at the end, and losses and norms to a file beside it.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.objectives.corpus import SYMBOLS, batch
from tests.objectives.test_every_pair import asked, own_words
from tests.tiny_specs import shaken
from variorum.builder import build
from variorum.objectives import objective_for
from variorum.spec.model import Model as Spec
from variorum.tasks.adapt import read
from variorum.training.distributed import Processes, joined
from variorum.training.loop import Trainer
from variorum.training.optimiser import Optimisation
from variorum.training.snapshots import Snapshots
from variorum.training.world import World

if TYPE_CHECKING:
    from variorum.objectives.base import Batch

STEPS, PIECES = 12, 4
#: Layers that are one; a tied table; a generator that shares its table with the model; a teacher that learns nothing.
KINDS = {
    "albert": "masked_lm", "gpt2": "causal_lm", "electra": "replaced_token", "distilbert": "distillation",
}  # fmt: skip
#: What learns is adapters, or the upper layers; the rest is sharded with it, and stays.
ADAPTED = {"gpt2+lora:2": "causal_lm", "bert+freeze:1": "masked_lm"}
DROPOUTS = ("dropout", "input.dropout", "block.dropout", "block.attention.dropout", "block.feedforward.dropout")
Seen = list[tuple[float, float]]


def still(spec: Spec) -> Spec:
    """The spec without dropout, which each process would draw for itself."""
    for stack in spec.architecture.stacks:
        for path in DROPOUTS:
            node: Any = spec.architecture.stacks[stack]
            for word in path.split("."):
                node = getattr(node, word, None)
            if node is not None:
                spec = spec.set({f"architecture.{stack}.{path}": 0.0})
    return spec


def trainer(name: str, world: World, kind: str = "adamw") -> Trainer:
    """In float64, before its first step."""
    asks, (base, _, way) = {**KINDS, **ADAPTED}[name], name.partition("+")
    spec = still(asked(base, asks))
    pad = getattr(spec.architecture.source, "pad_id", 0) or 0
    symbols = dataclasses.replace(SYMBOLS, pad=pad, special=SYMBOLS.special | {pad})
    teacher = shaken(build(spec, head=own_words(spec)), 5) if asks == "distillation" else None
    objective = objective_for(spec, symbols, teacher=teacher)
    model = shaken(build(spec, head=objective.requires))
    if way:
        read(way).prepare(model)

    def pieces(step: int) -> list[Batch]:
        """Micro-batches of unequal length, so that a mean of means would be wrong."""
        return [batch(asks, rows=2, longest=8 + 3 * i, seed=10 * step + i, pad=pad) for i in range(PIECES)]

    settings = Optimisation(steps=STEPS, rate=1e-2, warmup=2, clip=0.5, kind=kind)  # type: ignore[arg-type]
    return Trainer(model, objective, pieces, settings, seed=0, world=world)


def run(place: Path, steps: int, name: str, world: World, begin: Path | None = None) -> Seen:
    """Train up to ``steps``, and write the snapshot; losses and norms on the way."""
    one = trainer(name, world)
    if begin is not None:
        found = Snapshots(begin, world=world).newest(one.state())
        assert found is not None
        one.restore(found.state)
    records = [one.advance() for _ in range(one.step, steps)]
    Snapshots(place, world=world).save(one.state(), {"name": name})
    return [(record.loss, record.norm) for record in records]


def main(folder: str, steps: str, names: str, strategies: str, begin: str = "") -> None:
    with joined() as world:
        for strategy in strategies.split(","):
            if isinstance(world, Processes):
                world.strategy = strategy
            for name in names.split(","):
                start = Path(begin.format(name=name, strategy=strategy)) if begin else None
                place = Path(folder) / f"{name}-{strategy}-{world.size}"
                seen = run(place, int(steps), name, world, start)
                if world.rank == 0:
                    place.with_suffix(".json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
