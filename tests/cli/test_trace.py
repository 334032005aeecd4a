"""Two runs of one model part at the module that differs, and nowhere else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import variorum
from tests.cli import models
from tests.parity import oracle, tiny
from tests.parity.case import materialise
from tests.tools import record
from tests.tools.command import here as run
from variorum.inference.recorded import compare_with, read_recording, recorded_heads

# The least share of recorded activations that must find their module: dropouts, activations and wrappers have none.
CASES = {
    "bert/masked_lm": 0.5, "albert-groups/masked_lm": 0.6, "deberta-v2/masked_lm": 0.5, "modernbert/masked_lm": 0.7,
    "xlnet/permutation_lm": 0.4, "t5/seq2seq_lm": 0.5, "gpt2/causal_lm": 0.7, "mixtral/causal_lm": 0.5,
    "gemma3/causal_lm": 0.85, "deepseek-v3/causal_lm": 0.65,
}  # fmt: skip


def inputs(name: str) -> dict[str, Tensor]:
    """Two rows, the second one padded; T5 also gets what its decoder has written."""
    generator = torch.Generator().manual_seed(3)
    given = {"input_ids": torch.randint(6, 90, (2, 7), generator=generator), "attention_mask": torch.ones(2, 7).long()}
    given["attention_mask"][1, 5:] = 0
    if name.startswith("t5"):
        given["decoder_input_ids"] = torch.randint(6, 90, (2, 4), generator=generator)
    return given


def recorded(name: str, place: Path) -> tuple[Path, Path]:
    """A tiny published model and a recording of it."""
    case = tiny.named(name)
    directory, out = materialise(case, place / "model"), place / "acts.safetensors"
    given = inputs(name)
    record.write(record.record(oracle.load32(directory, case.oracle), given), given, case.oracle, out)
    return directory, out


def edited(directory: Path, name: str) -> None:
    """One weight of one matrix of a checkpoint, changed."""
    path = directory / "model.safetensors"
    tensors = load_file(path)
    tensors[name][0, 0] += 1.0
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize("name", CASES)
def test_what_another_library_recorded_agrees_module_by_module(name: str, tmp_path: Path) -> None:
    directory, acts = recorded(name, tmp_path)
    recording = read_recording(acts)
    found = compare_with(variorum.load(directory, head=recorded_heads(directory, recording)), recording)
    assert found.first is None
    assert len(found.compared) / len(recording.activations) >= CASES[name]
    assert max(row.error for row in found.compared) < 3e-5


def test_the_first_module_that_differs_is_named_under_both_names(tmp_path: Path) -> None:
    directory, acts = recorded("bert/masked_lm", tmp_path)
    edited(directory, "bert.encoder.layer.2.output.dense.weight")
    done = run("trace", str(directory), "--against", str(acts), "--format", "json")
    assert done.returncode == 6, done.stderr
    said = json.loads(done.stdout)
    assert said["first"]["name"] == "bert.encoder.layer.2.output.dense"
    assert said["first"]["ours"] == "encoder.layers.2.feedforward.down"
    before = [row["differs"] for row in said["compared"]]
    assert not any(before[: before.index(True)])
    text = run("trace", str(directory), "--against", str(acts)).stdout
    assert "first difference: bert.encoder.layer.2.output.dense (ours: encoder.layers.2.feedforward.down)" in text


def test_a_recording_of_the_same_weights_agrees(tmp_path: Path) -> None:
    directory, acts = recorded("gpt2/causal_lm", tmp_path)
    done = run("trace", str(directory), "--against", str(acts))
    assert done.returncode == 0, done.stderr
    assert "all agree" in done.stdout


def test_a_float64_recording_is_compared_in_float64(tmp_path: Path) -> None:
    case = tiny.named("llama/causal_lm")
    directory, out = materialise(case, tmp_path / "model"), tmp_path / "acts.safetensors"
    with oracle.exact():
        activations = record.record(oracle.load64(directory, case.oracle), inputs(case.name))
    record.write(activations, inputs(case.name), case.oracle, out)
    said = json.loads(run("trace", str(directory), "--against", str(out), "--format", "json").stdout)
    assert said["agree"]
    assert max(row["error"] for row in said["compared"]) < 1e-12


def test_two_checkpoints_of_one_architecture_are_compared_under_our_names(tmp_path: Path) -> None:
    one, other = models.bert(tmp_path / "one"), tmp_path / "other"
    shutil.copytree(one, other)
    (other / "variorum-manifest.json").unlink()
    assert run("trace", str(one), "--against", str(other), "--text", models.TEXT).returncode == 0
    edited(other, "bert.encoder.layer.1.attention.self.value.weight")
    done = run("trace", str(one), "--against", str(other), "--ids", "5,6,7", "--format", "json")
    assert done.returncode == 6
    assert json.loads(done.stdout)["first"]["name"] == "encoder.layers.1.attention.value"


def test_what_cannot_be_compared_is_said_in_one_line(tmp_path: Path, refuse: Callable[..., str]) -> None:
    directory = str(models.bert(tmp_path / "bert"))
    acts = tmp_path / "acts.safetensors"
    given = {"input.input_ids": torch.tensor([[5, 6, 7]])}
    assert "no such file or directory" in refuse("trace", directory, "--against", str(acts), code=3)
    save_file(given, acts)
    assert "holds no activations" in refuse("trace", directory, "--against", str(acts), code=7)
    save_file({**given, "somewhere.else": torch.ones(1, 3, 32)}, acts)
    assert "no recorded name" in refuse("trace", directory, "--against", str(acts), code=2)
    assert "brings its own inputs" in refuse("trace", directory, "--against", str(acts), "--text", "a", code=2)
    acts.write_bytes(acts.read_bytes()[:-4])
    assert "expected" in refuse("trace", directory, "--against", str(acts), code=7)
    assert "--text or --ids" in refuse("trace", directory, "--against", directory, code=2)
    assert "beyond the vocabulary" in refuse("trace", directory, "--against", directory, "--ids", "5,99999", code=2)
