"""A model is fetched whole, checked, and taken from the cache without a network; nothing that can run is fetched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.hub import COMMIT, serving
from tests.tools.command import refused, variorum

WEIGHTS = bytes(range(256)) * 40
FILES = {
    "config.json": b'{"model_type": "bert"}',
    "model.safetensors": WEIGHTS,
    "tokenizer.json": b"{}",
    "vocab.txt": b"[PAD]\n",
    "pytorch_model.bin": b"a pickle",
    "modeling_tiny.py": b"print('code')",
    "onnx/model.safetensors": b"the same again",
    "1_Pooling/config.json": b"{}",
}
TAKEN = {"config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "1_Pooling/config.json"}


def settings(home: Path, endpoint: str) -> dict[str, str]:
    return {"HF_HOME": str(home), "HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_model_is_fetched_once_and_then_needs_no_network(tmp_path: Path) -> None:
    with serving(FILES) as (endpoint, asked):
        done = variorum("--format", "json", "download", "org/tiny", env=settings(tmp_path, endpoint))
        assert done.returncode == 0, done.stderr
        got = json.loads(done.stdout)
        assert names(Path(got["folder"])) == TAKEN
        assert got["revision"] == COMMIT
        assert (Path(got["folder"]) / "model.safetensors").read_bytes() == WEIGHTS
        assert not [path for path in asked if path.endswith((".bin", ".py"))]
        before = len(asked)
        again = variorum("download", "org/tiny", "--offline", "--format", "json", env=settings(tmp_path, endpoint))
        assert json.loads(again.stdout)["folder"] == got["folder"]
        assert len(asked) == before


def test_to_copies_the_files_into_a_folder_of_the_users(tmp_path: Path) -> None:
    with serving(FILES) as (endpoint, _):
        target = tmp_path / "mine"
        done = variorum("download", "org/tiny", "--to", str(target), env=settings(tmp_path / "home", endpoint))
    assert done.returncode == 0, done.stderr
    assert names(target) == TAKEN
    assert not any(path.is_symlink() for path in target.rglob("*"))


def test_bytes_that_do_not_have_the_published_hash_are_refused(tmp_path: Path) -> None:
    with serving(FILES, lie="model.safetensors") as (endpoint, _):
        line = refused("download", "org/tiny", code=7, env=settings(tmp_path, endpoint))
    assert "model.safetensors: its sha256 is not the published one" in line


def test_weights_that_only_come_as_pickle_are_refused_before_a_byte_is_fetched(tmp_path: Path) -> None:
    pickled = {name: body for name, body in FILES.items() if not name.endswith(".safetensors")}
    with serving(pickled) as (endpoint, asked):
        line = refused("download", "org/tiny", code=3, env=settings(tmp_path, endpoint))
        assert not [path for path in asked if "/resolve/" in path]
    assert "no safetensors weights" in line


def test_a_repository_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    with serving(FILES) as (endpoint, _):
        line = refused("download", "org/other", code=3, env=settings(tmp_path, endpoint))
    assert "org/other: no such repository on the Hub" in line


@pytest.mark.parametrize("name", ["org/tiny", "bert-base-uncased"])
def test_offline_and_not_in_the_cache_names_the_remedy(tmp_path: Path, name: str) -> None:
    line = refused("download", name, "--offline", code=3, env={"HF_HOME": str(tmp_path)})
    assert "not in the cache" in line
    assert "`variorum download" in line


def test_a_half_fetched_model_does_not_pass_for_a_whole_one(tmp_path: Path) -> None:
    whole = {**FILES, "model.safetensors.index.json": b'{"weight_map": {"a": "model.safetensors"}}'}
    with serving(whole) as (endpoint, _):
        done = variorum("download", "org/tiny", "--format", "json", env=settings(tmp_path, endpoint))
    (Path(json.loads(done.stdout)["folder"]) / "model.safetensors").unlink()
    line = refused("download", "org/tiny", "--offline", code=3, env={"HF_HOME": str(tmp_path)})
    assert "the cache has only part of it" in line


def test_a_hub_that_does_not_answer_is_said_in_one_line(tmp_path: Path) -> None:
    line = refused("download", "org/tiny", code=1, env=settings(tmp_path, "http://127.0.0.1:9"))
    assert "the Hub cannot be reached" in line


def test_two_revisions_at_once_make_no_sense() -> None:
    assert "two revisions, v1 and v2" in refused("download", "org/tiny@v1", "--revision", "v2", code=2)
