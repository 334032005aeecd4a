"""Two processes train what one trains, replicated or sharded, and a checkpoint of any number is read by any other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.tiny_specs import made, tiny
from tests.training.processes import HEADS, pieces, run, still, trainer
from variorum.builder import build
from variorum.checkpoint import manifest
from variorum.errors import DamagedFile, UsageError
from variorum.training.distributed import PREFIX, even, own_layers, read
from variorum.training.loop import ALONE, Alone

SAME = 1e-9  # in float64: sums in another order, through a dozen steps of an optimiser
WAYS = ("replicate", "shard")
FIRST, SECOND, THIRD = 3, 5, 7


def start(processes: int, *given: str) -> None:
    """Run :mod:`tests.training.processes` in so many processes, as a user's ``torchrun`` would."""
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*line, "-m", "tests.training.processes", *given], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes made of both models, both ways."""
    folder = tmp_path_factory.mktemp("two")
    start(2, str(folder), str(FIRST), ",".join(HEADS), ",".join(WAYS))
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """The losses of one process that trains each model without a stop."""
    folder = tmp_path_factory.mktemp("alone")
    return {name: run(folder, THIRD, name, "replicate", ALONE, None) for name in HEADS}


def snapshot(folder: Path, name: str, way: str, processes: int, step: int) -> Path:
    return folder / f"{name}-{way}-{processes}" / f"{PREFIX}{step:08}"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", HEADS)
def test_two_processes_have_the_losses_of_one_with_the_same_batch(two, alone, name, way):
    losses = json.loads((two / f"{name}-{way}-2.json").read_text())
    assert losses == pytest.approx(alone[name][:FIRST], rel=SAME)


@pytest.mark.parametrize("name", HEADS)
def test_a_checkpoint_holds_each_shared_tensor_once_by_its_canonical_name(two, name):
    one = trainer(name, "replicate", ALONE)
    for way in WAYS:
        state, facts = read(snapshot(two, name, way, 2, FIRST), one)
        weights = {key for key in state.tensors if key.startswith("model/")}
        assert weights == {f"model/{key}" for key, _ in one.model.named_tensors()}
        assert state.step == FIRST == len(facts["losses"])
    files = list(snapshot(two, name, "shard", 2, FIRST).glob("*.safetensors"))
    assert len(files) == 2


def test_two_then_one_then_four_processes_go_on_as_if_one_had_done_it_all(two, alone, tmp_path):
    for name in HEADS:
        losses = run(tmp_path, SECOND, name, "shard", ALONE, snapshot(two, name, "shard", 2, FIRST))
        assert losses == pytest.approx(alone[name][FIRST:SECOND], rel=SAME)
    begin = str(snapshot(tmp_path, "{name}", "shard", 1, SECOND))
    start(4, str(tmp_path), str(THIRD), ",".join(HEADS), ",".join(WAYS), begin)
    for name in HEADS:
        for way in WAYS:
            losses = json.loads((tmp_path / f"{name}-{way}-4.json").read_text())
            assert losses == pytest.approx(alone[name][SECOND:THIRD], rel=SAME)


def test_a_snapshot_that_lost_a_byte_is_refused(two, tmp_path):
    place = tmp_path / "damaged"
    shutil.copytree(snapshot(two, "gpt2", "shard", 2, FIRST), place)
    one = trainer("gpt2", "replicate", ALONE)
    shard = next(place.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(DamagedFile, match="expected"):
        read(place, one)
    (place / manifest.NAME).unlink()
    with pytest.raises(DamagedFile, match="never finished"):
        read(place, one)


def test_layers_that_share_parameters_are_no_units_of_their_own():
    """ALBERT's layers are one; GPT-2's are each their own, and its tied table belongs to the whole."""
    assert own_layers(made("albert")) == []
    gpt = build(still(tiny("gpt2")), head="causal_lm")
    assert own_layers(gpt) == list(gpt.decoder.layers)
    tied = {id(gpt.decoder.input.table.weight)}
    assert tied.isdisjoint(id(p) for layer in own_layers(gpt) for p in layer.parameters())


def test_micro_batches_that_cannot_be_shared_evenly_are_refused_before_anybody_waits():
    class Three(Alone):
        size = 3

    with pytest.raises(UsageError, match=r"4 micro-batches cannot be shared by 3 processes.*--micro-batch"):
        even(pieces, Three())(0)
    assert len(even(pieces, ALONE)(0)) == 4


def test_random_streams_of_processes_that_did_not_exist_start_anew(two):
    one = trainer("gpt2", "replicate", ALONE)
    one.dropout.states["cpu"] = torch.zeros_like(one.dropout.states["cpu"])
    state, _ = read(snapshot(two, "gpt2", "replicate", 2, FIRST), one)
    assert bool(state.tensors["random/cpu"].any()) and not any(key.startswith("random/1") for key in state.tensors)
