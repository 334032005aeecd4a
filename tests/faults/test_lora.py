"""Adapters in training are killed at every kind of moment, and end in the bits of a run that went straight through."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
import torch

from tests.faults.test_kill import killed_at
from tests.tiny_specs import tiny
from variorum.builder import build
from variorum.objectives.labels import Labels
from variorum.parts.lora import adapters
from variorum.tasks.adapt import Lora
from variorum.training.loop import Trainer
from variorum.training.optimiser import Optimisation
from variorum.training.order import Shuffle
from variorum.training.snapshots import Snapshots

HEAD, ROWS, BATCH, STEPS, SAVES = "sequence_classification", 10, 4, 9, 3


def pieces(step: int) -> list[dict[str, torch.Tensor]]:
    """Rows of several lengths in two micro-batches, an epoch ending in the middle of a step."""
    drawn = torch.Generator().manual_seed(0)
    ids, lengths = torch.randint(5, 50, (ROWS, 8), generator=drawn), torch.randint(2, 9, (ROWS,), generator=drawn)
    mask = (torch.arange(8) < lengths[:, None]).long()
    numbers = torch.tensor(Shuffle(rows=ROWS, seed=1)(step * BATCH, BATCH).tolist())
    return [
        {"input_ids": ids[n] * mask[n], "attention_mask": mask[n], "labels": n % 2} for n in numbers.split(BATCH // 2)
    ]  # fmt: skip


def run(folder: Path) -> Trainer:
    """From the newest snapshot to the end: dropout, accumulation, epochs that end within a step, packed texts."""
    small = {"architecture.encoder.depth": 2}
    small |= {f"architecture.encoder.block.{part}dropout": 0.1 for part in ("", "attention.")}
    model, how = build(tiny("bert", small), head=HEAD), Lora(rank=2, targets=("all",), dropout=0.2)
    how.prepare(model, seed=3)
    settings = Optimisation(steps=STEPS, rate=1e-2, warmup=2)
    trainer = Trainer(model, Labels(HEAD), pieces, settings, seed=5)
    snapshots = Snapshots(folder, say=lambda line: None)
    found = snapshots.newest(trainer.state())
    if found is not None:
        trainer.restore(found.state)
    while trainer.step < STEPS:
        trainer.advance()
        if trainer.step % SAVES == 0:
            snapshots.save(trainer.state(), {})
    return trainer


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.mechanism("R7", "H6")
@pytest.mark.case("V064")
def test_adapters_that_are_killed_while_they_learn_end_in_the_same_bits(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    trainer, right = run(tmp_path / "right"), digest(tmp_path / "right")
    assert adapters(trainer.model) and all(one.b.abs().max() > 0 for one in adapters(trainer.model).values())
    assert any(".lora.a/exp_avg" in name for name in trainer.state().tensors)
    killed, moment = 0, 0
    while killed_at(moment, lambda: run(tmp_path / "run")):
        run(tmp_path / "run")
        assert digest(tmp_path / "run") == right, moment
        shutil.rmtree(tmp_path / "run")
        killed, moment = killed + 1, moment + 43  # before and after calls of every kind, in every save
    assert killed > 3
