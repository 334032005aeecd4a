"""Two processes train what one trains, replicated or sharded, and a snapshot of any number is read by any other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.tiny_specs import made
from tests.training.processes import ADAPTED, KINDS, PIECES, Seen, run, trainer
from variorum.errors import DamagedFile, UsageError
from variorum.training.distributed import own_layers
from variorum.training.optimiser import Optimisation, optimisers
from variorum.training.session import shared
from variorum.training.snapshots import PREFIX, Snapshots
from variorum.training.world import ALONE, Alone

SAME = 1e-9  # in float64: sums in another order, through a few steps of an optimiser
STRATEGIES = ("ddp", "fsdp")
FIRST, SECOND, THIRD = 3, 5, 7


def start(processes: int, *given: str) -> None:
    """Run :mod:`tests.training.processes` in so many processes, as a user's ``torchrun`` would."""
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*line, "-m", "tests.training.processes", *given], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-3000:]


def seen(folder: Path, name: str, strategy: str, processes: int) -> list[float]:
    """Losses and norms in one row."""
    return flat(json.loads((folder / f"{name}-{strategy}-{processes}.json").read_text()))


def flat(pairs: Seen) -> list[float]:
    return [value for pair in pairs for value in pair]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes made of every model, both ways."""
    folder = tmp_path_factory.mktemp("two")
    start(2, str(folder), str(FIRST), ",".join([*KINDS, *ADAPTED]), ",".join(STRATEGIES))
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """What one process saw that trained each model without a stop."""
    folder = tmp_path_factory.mktemp("alone")
    return {name: flat(run(folder / name, THIRD, name, ALONE)) for name in KINDS}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", KINDS)
def test_two_processes_have_the_losses_and_norms_of_one_with_the_same_batch(two, alone, name, strategy):
    assert seen(two, name, strategy, 2) == pytest.approx(alone[name][: 2 * FIRST], rel=SAME)


@pytest.mark.parametrize("name", KINDS)
def test_a_snapshot_holds_each_shared_tensor_once_by_its_canonical_name(two, name):
    one = trainer(name, ALONE).state()
    wanted = {key for key in one.tensors if not key.startswith("random/")}
    for strategy in STRATEGIES:
        found = Snapshots(two / f"{name}-{strategy}-2").newest(one)
        assert found is not None and found.state.step == FIRST
        assert {key for key in found.state.tensors if key.split("/")[0] not in ("optimiser", "random")} == wanted
        assert all(found.state.tensors[key].shape == one.tensors[key].shape for key in wanted)
    assert len(list((two / f"{name}-fsdp-2" / f"{PREFIX}{FIRST:08}").glob("*.safetensors"))) == 2


@pytest.mark.mechanism("H6")
@pytest.mark.parametrize("name", ADAPTED)
def test_adapters_and_upper_layers_learn_in_two_processes_as_in_one_and_the_rest_stays(two, tmp_path, name):
    first = {key: tensor.clone() for key, tensor in trainer(name, ALONE).state().tensors.items()}
    one = trainer(name, ALONE)
    losses = [value for record in (one.advance() for _ in range(FIRST)) for value in (record.loss, record.norm)]
    wanted = {key: tensor for key, tensor in one.state().tensors.items() if not key.startswith("random/")}
    for strategy in STRATEGIES:
        assert seen(two, name, strategy, 2) == pytest.approx(losses, rel=SAME)
        found = Snapshots(two / f"{name}-{strategy}-2").newest(one.state())
        assert found is not None
        for key, tensor in wanted.items():
            held = found.state.tensors[key]
            if key.startswith("optimiser/") or key in one.named:
                torch.testing.assert_close(held, tensor, rtol=SAME, atol=SAME)
            else:
                assert torch.equal(held, first[key])
    learned = {key for key in first if key.startswith("model/") and not torch.equal(first[key], wanted[key])}
    assert learned == set(one.named)
    assert {key.split("/", 1)[1].rpartition("/")[0] for key in wanted if key.startswith("optimiser/")} == set(one.named)


def test_two_then_one_then_four_processes_go_on_as_if_one_had_done_it_all(two, alone, tmp_path):
    for name in KINDS:
        place = tmp_path / f"{name}-fsdp-1"
        losses = flat(run(place, SECOND, name, ALONE, two / f"{name}-fsdp-2"))
        assert losses == pytest.approx(alone[name][2 * FIRST : 2 * SECOND], rel=SAME)
    start(4, str(tmp_path), str(THIRD), ",".join(KINDS), ",".join(STRATEGIES), str(tmp_path / "{name}-fsdp-1"))
    for name in KINDS:
        for strategy in STRATEGIES:
            assert seen(tmp_path, name, strategy, 4) == pytest.approx(alone[name][2 * SECOND :], rel=SAME)


def test_a_snapshot_of_several_that_lost_a_byte_is_passed_over_aloud(two):
    place, said = two / "gpt2-ddp-2", []
    shard = next(place.glob("*/*.safetensors"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1])
    one = Snapshots(place, say=said.append)
    state = trainer("gpt2", ALONE).state()
    assert one.newest(state) is None and "which is not whole" in said[0]
    with pytest.raises(DamagedFile, match="expected"):
        one.named(f"{PREFIX}{FIRST:08}", state)
    shard.write_bytes(whole)
    assert one.newest(state) is not None


def test_layers_that_share_parameters_are_no_units_of_their_own():
    """ALBERT's layers are one; GPT-2's are each their own, and its tied table belongs to the whole."""
    assert own_layers(made("albert")) == []
    gpt = made("gpt2", "causal_lm")
    assert own_layers(gpt) == list(gpt.decoder.layers)
    tied = {id(gpt.decoder.input.table.weight)}
    assert tied.isdisjoint(id(p) for layer in own_layers(gpt) for p in layer.parameters())


def test_micro_batches_that_cannot_be_shared_evenly_are_refused_before_anybody_waits():
    one = trainer("gpt2", ALONE)
    one.world = type("Three", (Alone,), {"size": 3})()
    with pytest.raises(UsageError, match=rf"{PIECES} micro-batches cannot be shared by 3 processes"):
        one.advance()


@pytest.mark.parametrize(
    ("rows", "micro", "processes", "size"),
    [(32, 32, 1, 32), (32, 32, 2, 16), (32, 16, 2, 16), (32, 16, 4, 8), (32, 32, 3, 11), (7, 7, 2, 4), (4, 1, 4, 1)],
)
def test_rows_of_a_step_are_cut_so_that_each_process_has_as_many(rows, micro, processes, size):
    assert shared(rows, micro, processes) == size


def test_fewer_rows_than_processes_are_refused():
    with pytest.raises(UsageError, match=r"3 rows of a step cannot be shared by 4 processes.*--batch"):
        shared(3, 3, 4)


def test_adafactor_steps_no_sharded_tensors_and_says_so():
    class Part(torch.nn.Parameter):
        def to_local(self) -> torch.Tensor: ...

    settings = Optimisation(steps=2, rate=1e-3, warmup=0, kind="adafactor")
    with pytest.raises(UsageError, match="--strategy ddp"):
        optimisers({"model/weight": Part(torch.ones(2, 2))}, settings)


def test_random_streams_of_processes_that_did_not_exist_start_anew(two):
    one = trainer("gpt2", ALONE)
    one.dropout.states["cpu"] = torch.zeros_like(one.dropout.states["cpu"])
    found = Snapshots(two / "gpt2-ddp-2").newest(one.state())
    assert found is not None
    tensors = found.state.tensors
    assert bool(tensors["random/cpu"].any()) and not any(key.startswith("random/1") for key in tensors)
