"""What holds for every test: one thread each, no network, nothing of the user's own settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

# Before torch is imported anywhere: two workers with two threads each would be slower, and give other bits.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ.update(TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", NO_COLOR="1")
os.environ.pop("HF_TOKEN", None)

import pytest  # noqa: E402

from tests.tools.coverage import unknown  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """What leaves torch at other threads makes all that follows in its process ten times slower."""
    yield
    if (torch := sys.modules.get("torch")) is not None and (left := torch.get_num_threads()) != 1:
        torch.set_num_threads(1)
        pytest.fail(f"left torch at {left} threads")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A mark that names no mechanism holds nothing, so it must not look as if it did."""
    if lines := unknown(items):
        raise pytest.UsageError("\n".join(lines))
