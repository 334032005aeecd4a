"""Loading takes the memory of the file and no more: a checkpoint of BERT-base's size, each load in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.tiny_specs import tiny
from variorum.builder import assign, empty
from variorum.checkpoint import manifest
from variorum.checkpoint.config import write_config
from variorum.checkpoint.layout import layout_of
from variorum.checkpoint.save import disk_tensors
from variorum.checkpoint.writing import write_directory
from variorum.face import Model
from variorum.family import find
from variorum.spec.model import Model as Spec

MOST = 1.1  # of the file's bytes

CHILD = """
import sys, torch, variorum
from pathlib import Path

def held(what):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(what))

small, large, dtype = sys.argv[1:]
variorum.load(Path(small), head=None)
before = held("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
model = variorum.load(Path(large), head=None, dtype=dtype if dtype != "None" else None)
sum(float(p.detach().sum()) for p in model.parameters())  # every weight is looked at once
assert {p.dtype for p in model.parameters()} == {getattr(torch, dtype if dtype != "None" else "float32")}
print(held("VmHWM") - before)
"""


def stored(place: Path, spec: Spec, dtype: torch.dtype, shard: int = 2**40) -> int:
    """Write a model whose weights are all zero, in shards of so many bytes; bytes of its files."""
    model = empty(spec, (), kind=Model)
    assign(model, {key: torch.zeros(p.shape, dtype=dtype) for key, p in model.named_tensors()})
    layout = layout_of(spec, ())
    config = {"config.json": json.dumps(write_config(spec, layout, {"model_type": layout.model_type}, ())).encode()}
    values = {name: p.detach() for name, p in model.named_tensors()}
    write_directory(place, disk_tensors(model, values), config, max_shard_bytes=shard)
    (place / manifest.NAME).unlink()  # hashing the file again is not what is measured
    return sum(file.stat().st_size for file in place.glob("*.safetensors"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("memory") / "small"
    stored(place, tiny("bert"), torch.float32)
    return place


def peak(small: Path, large: Path, dtype: str | None) -> int:
    """Bytes that a process which has loaded before gains at most while it loads."""
    line = [sys.executable, "-c", CHILD, str(small), str(large), str(dtype)]
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_loading_440_mb_takes_a_tenth_more_than_the_file_at_most(tmp_path, small):
    size = stored(tmp_path / "whole", find("bert-base-uncased"), torch.float32)
    assert 430e6 < size < 450e6
    assert peak(small, tmp_path / "whole", "float32") <= MOST * size
    # Half the bytes, and one tensor of the file at a time: never both copies of all.
    assert peak(small, tmp_path / "whole", "bfloat16") <= 0.8 * size


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_shards_are_mapped_like_one_file_and_widening_never_holds_both_copies(tmp_path, small):
    size = stored(tmp_path / "shards", find("bert-base-uncased"), torch.float16, 60_000_000)
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 3
    assert peak(small, tmp_path / "shards", "float32") <= MOST * 2 * size
