"""What a pickled checkpoint holds comes out as safetensors, tensor for tensor; what could run something never does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch

import variorum
from tests.cli import models
from tests.tools.command import refused
from tests.tools.command import variorum as run
from variorum.checkpoint import unpickle
from variorum.checkpoint.convert import from_pickle
from variorum.checkpoint.files import TensorFiles
from variorum.errors import AccessError, DamagedFile, NotFound, UsageError


def pickled(place: Path, content: Any, name: str = "pytorch_model.bin") -> Path:
    """A directory with a pickle and the least config."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.json").write_text('{"model_type": "bert"}')
    torch.save(content, place / name)
    return place


def read(place: Path) -> dict[str, torch.Tensor]:
    with TensorFiles(place) as files:
        return {name: files.get(name).clone() for name in files.shapes}


class Hostile:
    """Would make a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return os.system, (f"touch {self.marker}",)


class Unknown:
    """Harmless, and nothing that a checkpoint holds."""


@pytest.mark.case("V027")
def test_a_pickle_that_would_run_something_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    source = pickled(tmp_path / "in", {"weight": torch.ones(2), "more": Hostile(marker)})
    line = refused("convert", str(source), str(tmp_path / "out"), "--from-pickle", code=7)
    assert "is not a file of tensors" in line and "model.safetensors" in line and "posix.system" in line
    assert not marker.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.case("V027")
@pytest.mark.parametrize("content", [{"weight": torch.ones(2), "args": Unknown()}, [torch.ones(2)], {"a": "text"}, {}])
def test_what_is_not_named_tensors_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(DamagedFile, match="is not a file of tensors"):
        from_pickle(pickled(tmp_path / "in", content), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.case("V027")
def test_loading_never_opens_a_pickle_and_names_the_command_that_does(tmp_path: Path) -> None:
    source = pickled(tmp_path / "in", {"embeddings.word_embeddings.weight": torch.ones(2, 2)})
    with pytest.raises(AccessError, match=r"variorum convert .* --from-pickle"):
        variorum.load(source)


@pytest.mark.case("V027")
def test_plain_tensors_come_out_with_their_names_types_and_values(tmp_path: Path) -> None:
    table = torch.arange(6.0).reshape(2, 3)
    content = OrderedDict(
        table=table, tied=table, turned=table.T, part=table[1], half=table.half(), ids=torch.arange(4),
        scalar=torch.tensor(2.5), empty=torch.empty(0, 3), trained=torch.nn.Parameter(table + 1),
    )  # fmt: skip
    done = from_pickle(pickled(tmp_path / "in", content), tmp_path / "out")
    found = read(tmp_path / "out")
    assert found.keys() == content.keys() and done.tensors == len(content)
    for name, tensor in content.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name
    assert (tmp_path / "out" / "config.json").read_bytes() == (tmp_path / "in" / "config.json").read_bytes()


@pytest.mark.parametrize("wrapper", ["state_dict", "model"])
def test_a_trainers_wrapping_is_taken_off(tmp_path: Path, wrapper: str) -> None:
    from_pickle(pickled(tmp_path / "in", {wrapper: {"a": torch.ones(2)}, "epoch": 3}), tmp_path / "out")
    assert read(tmp_path / "out").keys() == {"a"}


def test_shards_are_read_by_their_index_and_an_older_format_is_read_too(tmp_path: Path) -> None:
    source = pickled(tmp_path / "in", {"a": torch.ones(2)}, "pytorch_model-00001-of-00002.bin")
    torch.save({"b": torch.zeros(3)}, source / "two.bin", _use_new_zipfile_serialization=False)
    index = {"weight_map": {"a": "pytorch_model-00001-of-00002.bin", "b": "two.bin"}}
    (source / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    from_pickle(source, tmp_path / "out")
    assert read(tmp_path / "out").keys() == {"a", "b"}


def test_a_whole_model_is_the_same_after_the_detour(tmp_path: Path) -> None:
    safe = models.gpt2(tmp_path / "safe")
    tensors = read(safe)
    source = pickled(tmp_path / "in", tensors)
    for path in safe.iterdir():
        if path.suffix in (".json", ".txt") and "manifest" not in path.name:
            (source / path.name).write_bytes(path.read_bytes())
    assert run("convert", str(source / "pytorch_model.bin"), str(tmp_path / "out"), "--from-pickle").returncode == 0
    ours, again = variorum.load(safe), variorum.load(tmp_path / "out")
    assert again.origin.verified
    assert ours.generate("The Law", max_new_tokens=5) == again.generate("The Law", max_new_tokens=5)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    source = pickled(tmp_path / "in", {"a": torch.ones(1000)})
    content = (source / "pytorch_model.bin").read_bytes()
    (source / "pytorch_model.bin").write_bytes(content[:-700])
    with pytest.raises(DamagedFile):
        from_pickle(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_grows_beyond_a_file_of_its_size_is_stopped(tmp_path: Path) -> None:
    """A compressed archive of zeros: a few kilobytes that would take more memory than any file of that size may."""
    size = unpickle.TORCH_BYTES // 4 + (1 << 28)
    tensor = torch.zeros(1).expand(size)
    source = pickled(tmp_path / "in", {"a": tensor})  # four bytes on disk
    with pytest.raises(DamagedFile):
        from_pickle(source, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_the_process_that_reads_has_no_network_where_the_system_lets_it_give_that_up() -> None:
    program = (
        "import sys, socket, errno; sys.path.insert(0, sys.argv[1]); import unpickle; unpickle.limit(0)\n"
        "print(errno.errorcode.get(socket.socket().connect_ex(('127.0.0.1', 9))))"
    )
    ways = (["unshare", "--net", "true"], ["unshare", "--user", "--net", "true"])
    allowed = any(subprocess.run(way, capture_output=True, check=False).returncode == 0 for way in ways)
    command = [sys.executable, "-I", "-c", program, str(Path(unpickle.__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ("ENETUNREACH" if allowed else "ECONNREFUSED")


def test_a_link_out_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    outside = pickled(tmp_path / "elsewhere", {"a": torch.ones(1)})
    source = tmp_path / "in"
    source.mkdir()
    (source / "config.json").write_text("{}")
    (source / "pytorch_model.bin").symlink_to(outside / "pytorch_model.bin")
    with pytest.raises(DamagedFile, match="outside of its directory"):
        from_pickle(source, tmp_path / "out")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such"):
        from_pickle(tmp_path / "nowhere", tmp_path / "out")
    source = pickled(tmp_path / "in", {"a": torch.ones(1)})
    (source / "config.json").unlink()
    with pytest.raises(NotFound, match=r"no config\.json"):
        from_pickle(source, tmp_path / "out")
    with zipfile.ZipFile(source / "x.zip", "w"):
        pass
    with pytest.raises(UsageError, match="not a pickled checkpoint"):
        from_pickle(source / "x.zip", tmp_path / "out")


def test_a_directory_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    source = pickled(tmp_path / "in", {"a": torch.ones(1)})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"mine\.txt"):
        from_pickle(source, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_the_flag_is_for_pickles_and_keeps_values(tmp_path: Path) -> None:
    source = pickled(tmp_path / "in", {"a": torch.ones(1)})
    words = ("convert", str(source), str(tmp_path / "out"))
    assert "leave out --dtype" in refused(*words, "--from-pickle", "--dtype", "float16", code=2)
    assert "--from-pickle" in refused(*words, code=4)
