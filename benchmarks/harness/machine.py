"""What this machine can do, measured in the same run as what is made of it, and what it is."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from benchmarks.harness.turns import Side, Timed, per_second
from benchmarks.harness.worker import THREADS

#: A product of the shape of BERT-base's feed-forward over a batch of 1,024 tokens.
PRODUCT = (1024, 768, 3072)
#: Bytes read by all threads; far more than the caches that one core owns.
READ = 1 << 28
#: So often in a turn: the first after a sleep is slower.
TIMES = 8

PACKAGES = ("torch", "transformers", "sentence-transformers", "onnxruntime", "ctranslate2", "llama-cpp-python")
SGEMM = Side("float32 products", "benchmarks.harness.machine:product")
BANDWIDTH = Side("memory", "benchmarks.harness.machine:reading")


def product() -> Callable[[], None]:
    """``TIMES`` float32 matrix products of the shape ``PRODUCT``."""
    import torch

    rows, inner, columns = PRODUCT
    a, b = torch.randn(rows, inner), torch.randn(inner, columns)
    out = torch.empty(rows, columns)

    def job() -> None:
        for _ in range(TIMES):
            torch.mm(a, b, out=out)

    return job


def reading() -> Callable[[], None]:
    """``READ`` bytes of a matrix read ``TIMES`` times, each for one product with a vector."""
    import torch

    side = int((READ // 4) ** 0.5)
    matrix, vector, out = torch.ones(side, side), torch.ones(side), torch.empty(side)

    def job() -> None:
        for _ in range(TIMES):
            torch.mv(matrix, vector, out=out)

    return job


def sgemm_rate(timed: Timed) -> float | None:
    """FLOP/s of the side :data:`SGEMM`."""
    rows, inner, columns = PRODUCT
    return per_second(TIMES * 2 * rows * inner * columns, timed)


def bandwidth(timed: Timed) -> float | None:
    """Bytes a second of the side :data:`BANDWIDTH`."""
    return per_second(TIMES * READ, timed)


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
