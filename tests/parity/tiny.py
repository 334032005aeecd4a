"""Every tiny oracle model: one entry per model, each with the heads its family publishes, in `models/`.

Sizes are small and odd (widths of 40 and 48, 97 words, feed-forwards of 53), but depth, windows, bucket limits and
head layouts are such that every mechanism shows on the probes. Adding a model to parity, round trip and mutation
is one entry in the `TINY` of its lineage's file.
"""

from __future__ import annotations

import importlib
import pkgutil

from tests.parity import models
from tests.parity.case import Case, Tiny

TINY: tuple[Tiny, ...] = tuple(
    tiny
    for file in sorted(module.name for module in pkgutil.iter_modules(models.__path__))
    for tiny in importlib.import_module(f"{models.__name__}.{file}").TINY
)
CASES: tuple[Case, ...] = tuple(case for tiny in TINY for case in tiny.cases())


def named(name: str) -> Case:
    """The case a table row names."""
    return {case.name: case for case in CASES}[name]
