"""C sources are compiled once for a processor, kept, and done without where they cannot be."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from variorum.kernels import compiled

SOURCE = "#include <omp.h>\nint threads(void) { int n = 0;\n#pragma omp parallel reduction(+:n)\n n += 1; return n; }\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with one source, and an empty cache."""
    (tmp_path / "count.c").write_text(SOURCE)
    monkeypatch.setattr(compiled, "FOLDER", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("VARIORUM_KERNELS", raising=False)
    compiled.built.cache_clear()
    yield tmp_path
    compiled.built.cache_clear()


def libraries() -> list[Path]:
    return sorted(compiled.cache_folder().glob("*.so"))


def need(name: str) -> ctypes.CDLL:
    found = compiled.built(name)
    if found.library is None and ("no C compiler" in found.why or "processor" in found.why):
        pytest.skip(found.why)
    assert found.library is not None, found.why
    return found.library


def test_a_library_runs_on_the_threads_that_torch_has(folder: Path) -> None:
    torch.ones(4).sum()
    before = set(compiled._mapped(("libgomp", "libiomp5", "libomp")))
    assert need("count").threads() == torch.get_num_threads()
    # Other packages may have brought pools of their own; this one brings none.
    assert set(compiled._mapped(("libgomp", "libiomp5", "libomp"))) == before


def test_a_source_is_compiled_once_and_again_when_it_changes(folder: Path) -> None:
    need("count")
    (first,) = libraries()
    made = first.stat().st_mtime_ns
    compiled.built.cache_clear()
    need("count")
    assert [path.stat().st_mtime_ns for path in libraries()] == [made]
    (folder / "count.c").write_text(SOURCE + "int more(void) { return 7; }\n")
    compiled.built.cache_clear()
    assert need("count").more() == 7
    assert len(libraries()) == 2


def test_a_damaged_library_is_built_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("count")
    (name,) = [path.name for path in libraries()]
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "other"))
    damaged = compiled.cache_folder() / name
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"not a library")
    compiled.built.cache_clear()
    assert need("count").threads() >= 1
    assert damaged.read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [("VARIORUM_KERNELS", "off", "VARIORUM_KERNELS=off"), ("CC", "no-such-compiler", "no C compiler")],
)
def test_without_kernels_the_reason_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, why: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert compiled.built("count") == compiled.Built(None, why)
    assert libraries() == []


def test_a_processor_without_avx2_gets_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_cpu_flags", lambda: frozenset({"sse2"}))
    assert compiled.built("count") == compiled.Built(None, "this processor has no avx2, fma")


def test_a_source_that_does_not_compile_is_a_reason_and_not_a_failure(folder: Path) -> None:
    need("count")
    (folder / "broken.c").write_text("this is not C\n")
    found = compiled.built("broken")
    assert found.library is None and "failed" in found.why and "broken.c" in found.why


def test_a_cache_that_cannot_be_written_is_a_reason_and_not_a_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("count")
    (folder / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "file"))
    compiled.built.cache_clear()
    assert compiled.built("count").library is None
