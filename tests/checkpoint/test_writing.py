"""A save is there whole or not at all, reads back bit for bit, and never takes the place of what is not ours."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from variorum.checkpoint import manifest, writing
from variorum.checkpoint.files import TensorFiles, write_directory
from variorum.errors import AccessError, OverBudget, UsageError

CONFIG = {"config.json": b"{}"}


def every_type() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    made = {str(dtype): (torch.rand(3, 5) * 100).to(dtype) for dtype in writing.NAMES}
    return {
        **made,
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 4),
        "turned": torch.randn(4, 6).T,
        "every second": torch.randn(9)[::2],
        "broadcast": torch.tensor(1.0).expand(3, 3),
        "größe": torch.randn(2),
    }


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def visible(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_every_type_and_layout_reads_back_bit_for_bit_here_and_in_the_library(tmp_path: Path) -> None:
    tensors = every_type()
    write_directory(tmp_path / "m", tensors, CONFIG)
    theirs = load_file(tmp_path / "m" / "model.safetensors")
    with TensorFiles(tmp_path / "m") as ours:
        assert ours.shapes == {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        for name, tensor in tensors.items():
            for found in (ours.get(name), theirs[name]):
                assert (found.dtype, found.shape, bits(found)) == (tensor.dtype, tensor.shape, bits(tensor)), name
    assert set(theirs) == set(tensors)


def test_our_file_is_byte_for_byte_the_librarys(tmp_path: Path) -> None:
    tensors = every_type()
    write_directory(tmp_path / "m", tensors, {}, metadata={"format": "pt"})
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, tmp_path / "x", {"format": "pt"})
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == (tmp_path / "x").read_bytes()


def test_large_tensors_in_pieces_are_written_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "CHUNK_BYTES", 100)
    turned = torch.randn(30, 50).T
    write_directory(tmp_path / "m", {"turned": turned}, {})
    assert torch.equal(TensorFiles(tmp_path / "m").get("turned"), turned)


def test_shards_are_filled_in_order_and_named_as_published_ones_are(tmp_path: Path) -> None:
    tensors = {f"layer.{i}": torch.full((10,), float(i)) for i in range(5)} | {"large": torch.zeros(100)}
    write_directory(tmp_path / "m", tensors, CONFIG, max_shard_bytes=80)
    index = json.loads((tmp_path / "m" / "model.safetensors.index.json").read_text())
    assert index == {
        "metadata": {"total_size": 600},
        "weight_map": {
            "large": "model-00004-of-00004.safetensors",
            **{f"layer.{i}": f"model-0000{1 + i // 2}-of-00004.safetensors" for i in range(5)},
        },
    }
    with TensorFiles(tmp_path / "m") as found:
        assert all(torch.equal(found.get(name), tensor) for name, tensor in tensors.items())
    assert manifest.verify(tmp_path / "m")


def test_a_new_save_takes_the_place_of_an_older_one_and_of_an_empty_directory(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "er" / "m"
    write_directory(place, {"w": torch.zeros(40)}, {**CONFIG, "vocab.txt": b"a"}, max_shard_bytes=8)
    write_directory(place, {"w": torch.ones(40)}, CONFIG)
    assert visible(place) == ["config.json", "model.safetensors", manifest.NAME]
    assert manifest.verify(place)
    assert TensorFiles(place).get("w").sum() == 40
    assert visible(place.parent) == ["m"]
    (tmp_path / "empty").mkdir()
    write_directory(tmp_path / "empty", {"w": torch.ones(1)}, {})
    assert manifest.verify(tmp_path / "empty")


def test_through_a_link_the_save_goes_where_the_link_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for value in (1.0, 2.0):
        write_directory(tmp_path / "link", {"w": torch.tensor(value)}, {})
        assert TensorFiles(tmp_path / "real").get("w") == value
    assert (tmp_path / "link").is_symlink()


def _foreign(place: Path) -> None:
    place.mkdir()
    (place / "thesis.txt").write_text("years of work")


def _extended(place: Path) -> None:
    write_directory(place, {"w": torch.zeros(1)}, CONFIG)
    (place / "thesis.txt").write_text("years of work")


def _published(place: Path) -> None:
    place.mkdir()
    save_file({"w": torch.zeros(1)}, place / "model.safetensors")


def _broken(place: Path) -> None:
    write_directory(place, {"w": torch.zeros(1)}, CONFIG)
    (place / manifest.NAME).write_text("{")


def _file(place: Path) -> None:
    place.write_text("a file")


@pytest.mark.parametrize("make", [_foreign, _extended, _published, _broken, _file])
def test_what_is_not_ours_alone_is_never_replaced(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "m")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(UsageError) as caught:
        write_directory(tmp_path / "m", {"w": torch.ones(1)}, CONFIG)
    assert str(caught.value).isprintable()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


NESTED = ("../x", "a/b/c", "a/../b", "/b", "a/")


@pytest.mark.parametrize("name", [*NESTED, "", "..", manifest.NAME, "model.safetensors", "x.safetensors"])
def test_other_files_have_plain_names_of_their_own(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        write_directory(tmp_path / "m", {"w": torch.ones(1)}, {name: b""})
    assert visible(tmp_path) == []


def test_too_little_space_is_said_with_both_figures_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1234))
    monkeypatch.setattr(writing, "_workplace", lambda _: pytest.fail("wrote"))
    with pytest.raises(OverBudget, match=r"4,\d\d\d bytes needed, 1,234 free"):
        write_directory(tmp_path / "m", {"w": torch.ones(1000)}, {})
    assert visible(tmp_path) == []


def test_two_saves_at_once_into_one_place_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, go = threading.Event(), threading.Event()
    place = tmp_path / "m"
    write = writing._write

    def waiting(path: Path, pieces: Iterable[bytes | memoryview]) -> tuple[str, int]:
        started.set()
        go.wait(10)
        return write(path, pieces)

    monkeypatch.setattr(writing, "_write", waiting)
    try:
        first = threading.Thread(target=write_directory, args=(place, {"w": torch.tensor(1.0)}, {}))
        first.start()
        assert started.wait(10)
        with pytest.raises(UsageError, match="another save into it is running"):
            write_directory(place, {"w": torch.tensor(2.0)}, {})
    finally:
        go.set()
        first.join()
    assert TensorFiles(place).get("w") == 1.0
    assert manifest.verify(place)


def test_what_a_killed_save_left_is_swept_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    dead, living = tmp_path / ".m.tmp-1", tmp_path / ".m.tmp-2"
    for place in (dead, living):
        place.mkdir()
        (place / "config.json").write_text("{}")
    lock = os.open(living, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    write_directory(tmp_path / "m", {"w": torch.ones(1)}, {})
    os.close(lock)
    assert visible(tmp_path) == [".m.tmp-2", "m"]


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL])
def test_where_names_cannot_be_swapped_the_older_save_steps_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def unable(*_: object) -> int:
        writing.ctypes.set_errno(code)
        return -1

    write_directory(tmp_path / "m", {"w": torch.tensor(1.0)}, {})
    monkeypatch.setattr(writing.ctypes, "CDLL", lambda *_, **__: type("C", (), {"renameat2": staticmethod(unable)}))
    write_directory(tmp_path / "m", {"w": torch.tensor(2.0)}, {})
    assert TensorFiles(tmp_path / "m").get("w") == 2.0
    assert visible(tmp_path) == ["m"]


def test_an_error_of_the_system_while_swapping_leaves_the_older_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> int:
        writing.ctypes.set_errno(errno.EIO)
        return -1

    write_directory(tmp_path / "m", {"w": torch.tensor(1.0)}, {})
    monkeypatch.setattr(writing.ctypes, "CDLL", lambda *_, **__: type("C", (), {"renameat2": staticmethod(failing)}))
    with pytest.raises(AccessError, match="Input/output error"):
        write_directory(tmp_path / "m", {"w": torch.tensor(2.0)}, {})
    assert TensorFiles(tmp_path / "m").get("w") == 1.0
    assert visible(tmp_path) == ["m"]
