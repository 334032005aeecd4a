"""``variorum doctor``: what this installation has, and what it lacks.

It answers on a broken installation too: every line is found apart from the others, and a package that is missing or
does not import is reported, not raised.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from variorum import __version__
from variorum.cli.output import emit

REQUIRED = (
    "torch", "safetensors", "tokenizers", "sentencepiece", "huggingface_hub", "numpy", "pyarrow", "cyclopts", "rich",
    "pydantic", "scikit-learn", "scipy", "jinja2",
)  # fmt: skip
EXTRAS = {"ray": "ray", "onnx": "onnxruntime", "gguf": "gguf", "hub": "datasets", "track": "tensorboard"}
OLDEST_TORCH = (2, 11)
GIB = 2**30
SPACE_WANTED = 5 * GIB


class Finding(NamedTuple):
    """One line: what was looked at, what was found, and what to do if that is not well."""

    area: str
    name: str
    found: str
    remedy: str = ""


def command() -> int:
    """Versions, threads, back ends, cache folder and free space.

    Exit code 6 if something that every command needs is missing, and 0 otherwise.
    """
    findings = [finding for part in PARTS for finding in _guarded(part)]
    emit([finding._asdict() for finding in findings], ("area", "name", "found", "remedy"))
    return 6 if any(finding.remedy and finding.area == "package" for finding in findings) else 0


def _guarded(part: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(part())
    except BaseException as error:  # a broken binary raises what it likes, and the report goes on
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return [Finding(part.__name__.strip("_"), "", f"not to be found out: {type(error).__name__}: {error}")]


def _system() -> Iterator[Finding]:
    yield Finding("system", "variorum", __version__)
    yield Finding("system", "python", f"{platform.python_version()} at {sys.executable}")
    yield Finding("system", "platform", platform.platform())
    yield Finding("system", "cores", f"{len(os.sched_getaffinity(0))} usable of {os.cpu_count()}")
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    yield Finding("system", "memory", f"{pages / GIB:.1f} GiB")


def _packages() -> Iterator[Finding]:
    for name in REQUIRED:
        version = _version(name)
        remedy = "" if version else f"pip install {name}"
        if name == "torch" and version and tuple(map(int, version.split(".")[:2])) < OLDEST_TORCH:
            remedy = f"pip install 'torch>={'.'.join(map(str, OLDEST_TORCH))}'"
        yield Finding("package", name, version or "missing", remedy)
    for extra, name in EXTRAS.items():
        version = _version(name)
        yield Finding("extra", extra, version or "not installed", "" if version else f"pip install 'variorum[{extra}]'")


def _torch() -> Iterator[Finding]:
    import torch

    from variorum.attention.backends import BACKENDS

    yield Finding(
        "torch", "threads", f"{torch.get_num_threads()} in an operation, {torch.get_num_interop_threads()} across"
    )
    yield Finding("torch", "cpu capability", torch.backends.cpu.get_cpu_capability())
    yield Finding("torch", "cpu libraries", _names({"mkl": torch.backends.mkl, "onednn": torch.backends.mkldnn}))
    cuda = torch.cuda.is_available()
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if cuda else []
    yield Finding("torch", "cuda", ", ".join(devices) or "none")
    yield Finding("torch", "attention", ", ".join(BACKENDS))


def _kernels() -> Iterator[Finding]:
    from variorum.kernels.compiled import built, cache_folder

    found = built("decode")
    if found.library is not None:
        yield Finding("kernels", "compiled", f"by {found.why}, kept in {cache_folder()}")
        return
    remedy = "install a C compiler (gcc)" if found.why == "no C compiler" else ""
    yield Finding("kernels", "compiled", f"no, plain torch runs in their place: {found.why}", remedy)


def _cache() -> Iterator[Finding]:
    from huggingface_hub.constants import HF_HUB_CACHE, HF_HUB_OFFLINE

    yield Finding("cache", "folder", HF_HUB_CACHE)
    existing = next(path for path in (Path(HF_HUB_CACHE), *Path(HF_HUB_CACHE).parents) if path.exists())
    free = shutil.disk_usage(existing).free
    remedy = "" if free > SPACE_WANTED else "set HF_HOME to a folder on a larger disk"
    yield Finding("cache", "free space", f"{free / GIB:.1f} GiB", remedy)
    writable = os.access(existing, os.W_OK)
    yield Finding(
        "cache", "writable", "yes" if writable else "no", "" if writable else "set HF_HOME to a folder of yours"
    )
    yield Finding(
        "cache",
        "network",
        "off (HF_HUB_OFFLINE)" if HF_HUB_OFFLINE else "allowed; `--offline` or HF_HUB_OFFLINE=1 turns it off",
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _names(backends: dict[str, object]) -> str:
    return ", ".join(name for name, backend in backends.items() if backend.is_available()) or "none"  # type: ignore[attr-defined]


PARTS = (_system, _packages, _torch, _kernels, _cache)
