"""C sources of this folder, compiled on first use for this very processor and kept in the user's cache folder.

A library is known by its source, the compiler and the processor, so a changed one is another file, and processes that
build at once only waste time. It uses the OpenMP runtime that torch has loaded, and so torch's number of threads.
Where nothing can be compiled the reason is kept, and callers run their plain form.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

FOLDER = Path(__file__).parent
# Contracted products are what vector units do; nothing else may change what the source says.
COMPILE = ("-O3", "-march=native", "-fopenmp", "-fPIC", "-std=gnu11", "-fno-math-errno", "-ffp-contract=fast", "-c")
NEEDED = ("avx2", "fma")
NARROW = "-mno-avx512f"
SECONDS = 120


class Built(NamedTuple):
    """A loaded library, or ``None`` and why."""

    library: ctypes.CDLL | None
    why: str


class Tools(NamedTuple):
    """What builds a library: a compiler with its options, torch's OpenMP runtime, and the processor's flags."""

    compiler: str
    runtime: str
    options: tuple[str, ...]
    flags: frozenset[str]

    def build(self, name: str, scratch: Path) -> Path:
        """The library of ``<name>.c``, in ``scratch``."""
        compiled, linked = scratch / f"{name}.o", scratch / f"{name}.so"
        # Linked apart, by the path of torch's own runtime: -fopenmp would add the compiler's, a second pool of threads.
        for command in (
            [self.compiler, *self.options, str(FOLDER / f"{name}.c"), "-o", str(compiled)],
            [self.compiler, "-shared", str(compiled), self.runtime, "-lm", "-o", str(linked)],
        ):
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
        return linked

    def key(self, name: str) -> str:
        """What the library depends on, as a short hash: sources, headers, options, compiler, runtime, processor."""
        digest = hashlib.sha256()
        for source in (FOLDER / f"{name}.c", *sorted(FOLDER.glob("*.h"))):
            digest.update(source.read_bytes())
        for tool in (self.compiler, self.runtime):
            found = Path(tool).resolve().stat()
            digest.update(f"{tool} {found.st_size} {found.st_mtime_ns}\n".encode())
        digest.update(" ".join((*self.options, *sorted(self.flags))).encode())
        return digest.hexdigest()[:24]


@functools.cache
def built(name: str) -> Built:
    """The library of ``<name>.c``, compiled if this processor has not met it before.

    The environment variable ``VARIORUM_KERNELS`` may be "off", or "avx2" for no wider instructions than these.
    """
    wanted = os.environ.get("VARIORUM_KERNELS", "").lower()
    if wanted == "off":
        return Built(None, "VARIORUM_KERNELS=off")
    flags = _cpu_flags()
    lacking = [flag for flag in NEEDED if flag not in flags]
    if lacking:
        return Built(None, f"this processor has no {', '.join(lacking)}")
    compiler = shutil.which(os.environ.get("CC", "cc"))
    runtime = _openmp()
    if compiler is None or runtime is None:
        return Built(None, "no C compiler" if compiler is None else "torch has loaded no OpenMP")
    wide = "avx512f" in flags and wanted != "avx2"
    tools = Tools(compiler, runtime, COMPILE if wide else (*COMPILE, NARROW), flags)
    try:
        path = cache_folder() / f"{name}-{tools.key(name)}.so"
        return Built(_loaded(path, name, tools), f"{compiler} for {'avx512' if wide else 'avx2'}")
    except (OSError, subprocess.SubprocessError) as error:
        said = error.stderr.strip().splitlines() if isinstance(error, subprocess.CalledProcessError) else [str(error)]
        return Built(None, f"{compiler} failed: {next(iter(said), 'it said nothing')[:200]}")


def library(name: str) -> ctypes.CDLL | None:
    """The loaded library of ``<name>.c``; ``None`` where the plain form has to do."""
    return built(name).library


def declared(found: ctypes.CDLL, signatures: Mapping[str, tuple[Any, ...]]) -> ctypes.CDLL:
    """``found``, told what its functions take; they return nothing."""
    for name, arguments in signatures.items():
        function = getattr(found, name)
        function.argtypes, function.restype = arguments, None
    return found


def cache_folder() -> Path:
    """Where compiled libraries are kept: ``$XDG_CACHE_HOME/variorum/kernels``."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "variorum" / "kernels"


def _loaded(path: Path, name: str, tools: Tools) -> ctypes.CDLL:
    """The library at ``path``; one that is absent or does not load is built (again)."""
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            tools.build(name, Path(scratch)).replace(path)
        return ctypes.CDLL(str(path))


def _cpu_flags() -> frozenset[str]:
    """The processor's instruction sets as Linux names them; empty elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), ()))


def _openmp() -> str | None:
    """The path of the OpenMP runtime that torch runs on; other packages may have loaded their own before."""
    assert torch.get_num_threads()
    found, own = list(_mapped(("libgomp", "libiomp5", "libomp"))), str(Path(torch.__file__).parent)
    return next((path for path in found if path.startswith(own)), next(iter(found), None))


def _mapped(stems: tuple[str, ...]) -> Iterator[str]:
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        path = line.split(maxsplit=5)[-1]
        if Path(path).name.startswith(stems):
            yield path
