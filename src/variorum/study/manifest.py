"""What pins a study: everything that its numbers depend on, in one file beside the report, without times and places."""

from __future__ import annotations

import dataclasses
import enum
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from variorum import __version__
from variorum.family.names.own import OWN
from variorum.files import write_whole
from variorum.spec.model import Model
from variorum.study.cells import Cell, code_digest, fingerprint
from variorum.study.design import Study

NAME = "manifest.json"
LONG = 64
"""Items beyond which a list is told by its hash."""


def write(folder: Path, studies: Iterable[Study], cells: Sequence[Cell]) -> None:
    """Write ``manifest.json``, by which these studies can be told from any other."""
    content = json.dumps(pinned(studies, cells), indent=1, ensure_ascii=False)
    write_whole(folder / NAME, content.encode() + b"\n")


def pinned(studies: Iterable[Study], cells: Sequence[Cell]) -> dict[str, Any]:
    """Versions, designs, and of every cell its hash; what an arm is trained with, by its first seed."""
    return {
        "versions": {"variorum": __version__, "torch": metadata.version("torch"), "code": code_digest()},
        "machine": platform.machine(),
        "studies": [_study(study, cells) for study in studies],
    }


def _study(study: Study, cells: Iterable[Cell]) -> dict[str, Any]:
    mine = [cell for cell in cells if cell.study == study.name]
    first = {cell.arm: cell for cell in reversed(mine)}
    return {
        "name": study.name, "budget": study.budget, "items": study.items, "metric": plain(study.metric),
        "seeds": study.seeds, "looks": study.looks, "alpha": study.alpha, "equal": study.equal,
        "unequal": study.unequal, "claims": plain(study.claims),
        "arms": [
            {"name": arm.name, "title": arm.title, "threads": first[arm.name].threads, "steps": first[arm.name].steps,
             "data": first[arm.name].data, "call": first[arm.name].call, "work": plain(first[arm.name].work)}
            for arm in study.arms
        ],
        "cells": {cell.name: cell.key for cell in mine},
    }  # fmt: skip


def plain(value: Any) -> Any:
    """A value as JSON holds it: paths left out, for their content is hashed; long lists by their hash."""
    if isinstance(value, Model):
        return OWN.write(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items() if not isinstance(one, Path)}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value] if len(value) <= LONG else {"sha256": fingerprint(value)}
    return value.name if isinstance(value, enum.Enum) else value
