"""Jobs that models are used for, as estimators that follow scikit-learn's protocol, with metrics and baselines.

from variorum import tasks

model = tasks.Classifier("org/name").fit(texts, labels)
model.save("directory")
tasks.load("directory").predict(texts)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from variorum.tasks.classify import Classifier as Classifier
    from variorum.tasks.registry import load as load


def __getattr__(name: str) -> Any:
    registry = import_module("variorum.tasks.registry")
    if name == "load":
        return registry.load
    homes = (place.partition(":") for place in registry.KINDS.values())
    home = next((module for module, _, held in homes if held == name), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
