"""variorum: one small engine for the transformer family, every model a short diff on its ancestor.

Specs are plain data and need no torch; models are built or loaded on first use.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

os.environ.setdefault("MKL_CBWR", "AUTO")
"""The same numbers give the same bits wherever they lie in memory, a model and its reload, and MKL is as quick."""

if TYPE_CHECKING:
    from variorum.face import build as build
    from variorum.face import load as load
    from variorum.family.reference import architecture as architecture
    from variorum.family.reference import diff as diff
    from variorum.family.reference import size as size

_LAZY = {
    "architecture": ("variorum.family.reference", "architecture"),
    "diff": ("variorum.family.reference", "diff"),
    "size": ("variorum.family.reference", "size"),
    "build": ("variorum.face", "build"),
    "load": ("variorum.face", "load"),
}
__all__ = ["architecture", "build", "diff", "load", "size", "study"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(importlib.import_module(module), attribute)
    if name == "study":
        return importlib.import_module("variorum.study")
    raise AttributeError(f"module 'variorum' has no attribute {name!r}")
