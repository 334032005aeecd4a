"""One process of several, started by ``torchrun`` from the tests: trains a tiny model, and says what it saw.

``python -m tests.training.processes FOLDER STEPS MODEL WAY [FROM]``: from the first step, or from the snapshot FROM;
writes a snapshot into FOLDER/MODEL-WAY-N at the end, and the losses to FOLDER/MODEL-WAY-N.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from tests.tiny_specs import shaken, tiny, words
from variorum.builder import build
from variorum.objectives.base import Corrupted, LossSum, Objective
from variorum.spec.model import Model as Spec
from variorum.training.distributed import Group, Way, even, joined, read, spread, write
from variorum.training.loop import Trainer
from variorum.training.optimiser import Optimisation

if TYPE_CHECKING:
    from variorum.objectives.base import Batch

STEPS, PIECES = 12, 4
HEADS = {"albert": "masked_lm", "gpt2": "causal_lm"}
DROPOUTS = ("dropout", "input.dropout", "block.dropout", "block.attention.dropout", "block.feedforward.dropout")


class Copy(Objective):
    """Say what was read: any head that scores words learns it, and nothing is drawn."""

    name = "copy"

    def __init__(self, head: str) -> None:
        self.requires = (head,)

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        return Corrupted(inputs=batch, targets=batch["input_ids"])

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        scores = model(**example.inputs).logits.flatten(0, 1)
        total = torch.nn.functional.cross_entropy(scores, example.targets.flatten(), reduction="sum")
        return LossSum(total=total, count=example.count)


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


def pieces(step: int) -> list[Batch]:
    """Four micro-batches of unequal length, so that a mean of means would be wrong."""
    return [{"input_ids": words(2, 5 + 3 * i, seed=10 * step + i)} for i in range(PIECES)]


def trainer(name: str, way: Way, world: Group) -> Trainer:
    """In float64, before its first step."""
    model = shaken(build(still(tiny(name)), head=HEADS[name]))
    if world.size > 1:
        spread(model, way)
    settings = Optimisation(steps=STEPS, rate=1e-2, warmup=2, clip=0.5)
    return Trainer(model, Copy(HEADS[name]), even(pieces, world), settings, seed=0, world=world)


def run(folder: Path, steps: int, name: str, way: Way, world: Group, begin: Path | None) -> list[float]:
    """Train up to ``steps``, and write the snapshot; the losses on the way."""
    one = trainer(name, way, world)
    if begin is not None:
        one.restore(read(begin, one)[0])
    losses = [one.advance().loss for _ in range(one.step, steps)]
    write(folder / f"{name}-{way}-{world.size}", one, {"losses": losses})
    return losses


def main(folder: str, steps: str, names: str, ways: str, begin: str = "") -> None:
    with joined() as world:
        for name in names.split(","):
            for way in cast(list[Way], ways.split(",")):
                start = Path(begin.format(name=name, way=way)) if begin else None
                losses = run(Path(folder), int(steps), name, way, world, start)
                if world.rank == 0:
                    (Path(folder) / f"{name}-{way}-{world.size}.json").write_text(json.dumps(losses))


if __name__ == "__main__":
    main(*sys.argv[1:])
