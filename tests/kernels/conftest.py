"""Compiled loops for every width of registers that this processor has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from variorum.kernels import compiled


@pytest.fixture(params=["", "avx2"], ids=["native", "avx2"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """decode.c, compiled; skipped with the reason where it cannot be. No gradients."""
    monkeypatch.setenv("VARIORUM_KERNELS", request.param)
    compiled.built.cache_clear()
    found = compiled.built("decode")
    if found.library is None:
        pytest.skip(found.why)
    with torch.no_grad():
        yield
    compiled.built.cache_clear()
