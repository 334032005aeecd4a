"""The doctor answers on a healthy installation and on a broken one."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator

import pytest

from tests.tools.command import variorum
from variorum.cli import doctor


def test_it_reports_versions_threads_backends_cache_and_space() -> None:
    done = variorum("doctor", "--format", "jsonl", env={"HF_HOME": "/nowhere/at/all"})
    assert done.returncode == 0, done.stderr
    found = {(row["area"], row["name"]): row for row in map(json.loads, done.stdout.splitlines())}
    assert found["package", "torch"]["found"] == importlib.metadata.version("torch")
    assert found["torch", "threads"]["found"].startswith("1 in an operation")
    assert found["cache", "folder"]["found"].startswith("/nowhere/at/all")
    assert found["cache", "free space"]["found"].endswith("GiB")
    assert found["cache", "network"]["found"] == "off (HF_HUB_OFFLINE)"
    assert "eager" in found["torch", "attention"]["found"]
    assert found["kernels", "compiled"]["found"].startswith(("by ", "no, plain torch runs"))


def test_it_says_why_plain_torch_runs_in_the_place_of_compiled_loops() -> None:
    done = variorum("doctor", "--format", "jsonl", env={"VARIORUM_KERNELS": "off"})
    row = next(row for row in map(json.loads, done.stdout.splitlines()) if row["area"] == "kernels")
    assert row["found"] == "no, plain torch runs in their place: VARIORUM_KERNELS=off" and done.returncode == 0


def test_a_missing_package_is_a_finding_with_its_remedy_and_exit_code_6(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "tokenizers" else version(name))
    assert doctor.command() == 6
    row = next(line for line in capsys.readouterr().out.splitlines() if " tokenizers " in line)
    assert row.split(maxsplit=3) == ["package", "tokenizers", "missing", "pip install tokenizers"]


def test_a_torch_too_old_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: "2.9.1")
    torch = next(finding for finding in doctor._packages() if finding.name == "torch")
    assert torch.remedy == "pip install 'torch>=2.11'"


def test_a_package_that_breaks_on_import_does_not_end_the_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def _torch() -> Iterator[doctor.Finding]:
        yield doctor.Finding("torch", "threads", "1")
        raise OSError("libtorch.so: cannot open shared object file")

    monkeypatch.setattr(doctor, "PARTS", (doctor._system, _torch, doctor._cache))
    assert doctor.command() == 0
    printed = capsys.readouterr().out
    assert "not to be found out: OSError: libtorch.so" in printed
    assert "free space" in printed
