"""What this machine can do, measured in the same run as what is made of it, and what it is."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from benchmarks.harness.turns import Side, Timed
from benchmarks.harness.worker import THREADS

#: A product of the shape of BERT-base's feed-forward over a batch of 1,024 tokens.
PRODUCT = (1024, 768, 3072)
#: Read by all threads, once a turn; far larger than the caches that one core owns.
READ = 1 << 28

PACKAGES = ("torch", "transformers", "sentence-transformers", "onnxruntime", "ctranslate2", "llama-cpp-python")
SGEMM = Side("float32 products", "benchmarks.harness.machine:product")
BANDWIDTH = Side("memory", "benchmarks.harness.machine:reading")


def product() -> Callable[[], None]:
    """One float32 matrix product of the shape ``PRODUCT``."""
    import torch

    rows, inner, columns = PRODUCT
    a, b = torch.randn(rows, inner), torch.randn(inner, columns)
    out = torch.empty(rows, columns)
    return lambda: [torch.mm(a, b, out=out) for _ in range(8)] and None


def reading() -> Callable[[], None]:
    """``READ`` bytes read once."""
    import torch

    data = torch.ones(READ // 4)
    return lambda: float(data.sum()) and None


def sgemm_rate(timed: Timed) -> float | None:
    """FLOP/s of the side :data:`SGEMM`."""
    rows, inner, columns = PRODUCT
    return 8 * 2 * rows * inner * columns / timed.median if timed.median else None


def bandwidth(timed: Timed) -> float | None:
    """Bytes a second of the side :data:`BANDWIDTH`."""
    return READ / timed.median if timed.median else None


def about() -> dict[str, object]:
    """The date, the machine and the versions that a page of figures has to name."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"), "machine": _processor(),
        "cores": os.cpu_count(), "threads": THREADS, "Python": platform.python_version(), **versions,
    }  # fmt: skip


def _processor() -> str:
    told = Path("/proc/cpuinfo").read_text("utf-8") if Path("/proc/cpuinfo").is_file() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    flags = re.search(r"^flags\s*:\s*(.+)$", told, re.MULTILINE)
    known = set(flags[1].split()) if flags else set()
    has = [name for name in ("avx2", "avx512f", "avx512_vnni", "amx_tile") if name in known]
    return " ".join([found[1] if found else platform.machine(), f"({', '.join(has)})" if has else ""]).strip()
