"""What a user of the command line sees of a damaged model: exit code 7, one line on stderr, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from tests.faults import models
from tests.tools.command import refused, variorum

WEIGHTS = "model.safetensors"


def _flip(place: Path) -> None:
    content = bytearray((place / WEIGHTS).read_bytes())
    content[-100] ^= 4
    (place / WEIGHTS).write_bytes(content)


def _cut(place: Path) -> None:
    content = (place / WEIGHTS).read_bytes()
    (place / WEIGHTS).write_bytes(content[: len(content) // 2])


def _cut_published(place: Path) -> None:
    (place / "variorum-manifest.json").unlink()
    _cut(place)


def _missing(place: Path) -> None:
    (place / "variorum-manifest.json").unlink()
    tensors = load_file(place / WEIGHTS)
    del tensors["bert.encoder.layer.0.output.dense.weight"]
    save_file(tensors, place / WEIGHTS)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_flip, "expected sha256"),
        (_cut, "bytes by variorum-manifest.json, found"),
        pytest.param(_cut_published, "bytes, found", marks=pytest.mark.case("V025")),
        (_missing, "bert.encoder.layer.0.output.dense.weight"),
    ],
)
def test_a_damaged_model_fills_no_mask_and_says_why_in_one_line(
    tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    place = models.own(tmp_path / "m")
    damage(place)
    line = refused("fill-mask", str(place), "a [MASK]", code=7)
    assert said in line
    assert str(place) in line


def test_the_same_model_undamaged_fills_it(tmp_path: Path) -> None:
    done = variorum("fill-mask", str(models.own(tmp_path / "m")), "a [MASK]", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "probability" in done.stdout
