"""A save of ours is what it was when it was saved, or it is refused; of others' directories nothing is claimed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from variorum.checkpoint import manifest
from variorum.checkpoint.files import write_directory
from variorum.errors import DamagedFile

WEIGHTS = "model.safetensors"


@pytest.fixture
def save(tmp_path: Path) -> Path:
    write_directory(tmp_path / "m", {"w": torch.arange(6.0)}, {"config.json": b'{"a": 1}'})
    return tmp_path / "m"


def refused(directory: Path) -> str:
    with pytest.raises(DamagedFile) as caught:
        manifest.verify(directory)
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_a_save_verifies_and_a_directory_without_a_manifest_is_of_unknown_integrity(save: Path) -> None:
    assert manifest.verify(save) is True
    (save / manifest.NAME).unlink()
    assert manifest.verify(save) is False


def test_one_flipped_bit_in_any_byte_of_any_file_is_found_and_the_file_named(save: Path) -> None:
    for name in ("config.json", WEIGHTS):
        whole = (save / name).read_bytes()
        for at in range(len(whole)):
            (save / name).write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
            assert name in refused(save)
        (save / name).write_bytes(whole)
    assert manifest.verify(save)


def test_length_absence_and_additions_are_found(save: Path) -> None:
    whole = (save / WEIGHTS).read_bytes()
    (save / WEIGHTS).write_bytes(whole[:-1])
    assert f"expected {len(whole):,} bytes by {manifest.NAME}, found {len(whole) - 1:,}" in refused(save)
    (save / WEIGHTS).unlink()
    assert "missing" in refused(save)
    (save / WEIGHTS).write_bytes(whole)
    (save / "model.safetensors.index.json").write_text("{}")
    assert "not part of what was saved" in refused(save), "it could take the place of the verified file"
    (save / "model.safetensors.index.json").unlink()
    (save / "notes.md").write_text("no loader reads this")
    assert manifest.verify(save)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(format=2),
        lambda m: m.update(format="1"),
        lambda m: m.update(more=1),
        lambda m: m.update(files=[]),
        lambda m: m["files"].update({"../x": m["files"].pop("config.json")}),
        lambda m: m["files"]["config.json"].update(bytes=True),
        lambda m: m["files"]["config.json"].update(bytes=-1),
        lambda m: m["files"]["config.json"].update(sha256="0"),
        lambda m: m["files"]["config.json"].update(sha256="0" * 64),
        lambda m: m["files"]["config.json"].pop("sha256"),
        lambda m: m["files"].pop("config.json"),
        lambda m: m["files"].clear(),
    ],
)
def test_a_manifest_that_was_changed_does_not_pass(save: Path, change: Callable[[dict[str, object]], object]) -> None:
    path = save / manifest.NAME
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    refused(save)


def test_a_listed_file_that_is_a_link_out_of_the_directory_is_refused(save: Path) -> None:
    outside = save.parent / "config.json"
    (save / "config.json").rename(outside)
    (save / "config.json").symlink_to(outside)
    assert "outside of its directory" in refused(save)
