"""The house stands on floors: a module imports only from below, and nothing in it can run what a file brings."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
# Lowest first; two names on one floor do not see each other. The package's own face is above all of them.
FLOORS = (
    ("errors",),
    ("spec", "files"),
    ("family",),
    ("kernels",),
    ("text", "parts", "audio", "hub", "page"),
    ("attention",),
    ("model",),
    ("builder",),
    ("checkpoint",),
    ("inference",),
    ("face",),
    ("objectives",),
    ("training",),
    ("tasks",),
    ("surgery",),
    ("study", "checks"),
    ("cli",),
    ("__main__",),
)
HEIGHT = {name: height for height, floor in enumerate(FLOORS) for name in floor}
STANDARD_LIBRARY_ONLY = ("errors", "spec", "family")
BANNED_MODULES = {"transformers", "pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
BANNED_CALLS = {"eval", "exec"}
BANNED_ATTRIBUTES = {("torch", "load"), ("yaml", "load"), ("yaml", "unsafe_load"), ("yaml", "full_load")}
BANNED_KEYWORDS = {"trust_remote_code", "allow_pickle"}
BANNED_METHODS = {"extractall"}

# Reads pickles, as a process of its own with limits; the only one that may.
UNPICKLER = SOURCE / "variorum" / "checkpoint" / "unpickle.py"

MODULES = sorted(SOURCE.joinpath("variorum").rglob("*.py"))


def floor_of(path: Path) -> str:
    """The part of the house that a file belongs to; empty for the package's own face and its version."""
    inside = path.relative_to(SOURCE / "variorum")
    name = inside.parts[0].removesuffix(".py")
    return "" if name == "__init__" else name


def imports(tree: ast.AST, package: str) -> Iterator[tuple[str, int]]:
    """Every module that ``tree``, part of ``package``, imports when it runs, with its line.

    Imports for the type checker alone do not count.
    """
    for_types: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for_types.update(id(inner) for statement in node.body for inner in ast.walk(statement))
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                module = ".".join([*above, module]).rstrip(".")
            # `from variorum import spec` names a part of the house, `from variorum.spec import Model` a thing in it.
            deep = module in ("variorum", "torch", "yaml")
            yield from ((f"{module}.{a.name}" if deep else module, node.lineno) for a in node.names)


def violations(source: str, floor: str, package: str = "variorum.somewhere") -> list[str]:
    """What the module with this text on this floor may not do."""
    tree = ast.parse(source)
    found = []
    for name, line in imports(tree, package):
        root, _, rest = name.partition(".")
        if root in BANNED_MODULES or tuple(name.split(".")) in BANNED_ATTRIBUTES:
            found.append(f"line {line}: imports {name}")
        if root == "variorum" and floor:
            part = rest.partition(".")[0]
            if part != floor and part in HEIGHT and HEIGHT[part] >= HEIGHT[floor]:
                found.append(f"line {line}: {floor} imports {name} from above or beside it")
        elif floor in STANDARD_LIBRARY_ONLY and root not in sys.stdlib_module_names:
            found.append(f"line {line}: {floor} imports {root}, which is not the standard library")
    for node in ast.walk(tree):
        found += _banned(node)
    return found


def _banned(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
            return [f"line {node.lineno}: calls {node.func.id}"]
        if isinstance(node.func, ast.Attribute) and node.func.attr in BANNED_METHODS:
            return [f"line {node.lineno}: calls {node.func.attr}"]
        # Saying no is what the ban is for.
        said = [k for k in node.keywords if k.arg in BANNED_KEYWORDS and ast.unparse(k.value) != "False"]
        return [f"line {node.lineno}: passes {k.arg}" for k in said]
    if isinstance(node, ast.Attribute) and (ast.unparse(node.value), node.attr) in BANNED_ATTRIBUTES:
        return [f"line {node.lineno}: uses {ast.unparse(node)}"]
    return []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_the_floors_below_and_runs_nothing_that_a_file_brings(path: Path) -> None:
    floor = floor_of(path)
    assert not floor or floor in HEIGHT, f"{floor} stands on no floor; give it one in FLOORS"
    package = ".".join(path.parent.relative_to(SOURCE).parts)
    found = violations(path.read_text("utf-8"), floor, package)
    if path == UNPICKLER:
        found = [one for one in found if not one.endswith("uses torch.load")]
    assert found == []


@pytest.mark.case("V027")
def test_the_one_process_that_reads_pickles_reads_tensors_alone_and_knows_nothing_of_the_house() -> None:
    tree = ast.parse(UNPICKLER.read_text("utf-8"))
    loads = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load"]
    assert [ast.unparse(k.value) for call in loads for k in call.keywords if k.arg == "weights_only"] == ["True"]
    assert len(loads) == 1
    assert not any(name.startswith("variorum") for name, _ in imports(tree, "variorum.checkpoint"))


@pytest.mark.parametrize(
    ("source", "floor"),
    [
        ("import torch", "spec"),
        ("from numpy import array", "family"),
        ("from variorum.family import find", "spec"),
        ("from variorum import study", "training"),
        ("def f():\n    from variorum.cli import main", "study"),
        ("from variorum.text import load", "parts"),
        ("from ..training import loop", "model"),
        ("from .. import study", "tasks"),
        ("import transformers", "cli"),
        ("from transformers.models import bert", "checkpoint"),
        ("import pickle", "training"),
        ("torch.load(path)", "checkpoint"),
        ("from torch import load", "checkpoint"),
        ("yaml.load(text)", "study"),
        ("eval(text)", "study"),
        ("f(trust_remote_code=True)", "text"),
        ("archive.extractall(folder)", "checkpoint"),
    ],
)
def test_each_ban_is_noticed_when_it_is_broken(source: str, floor: str) -> None:
    assert len(violations(source, floor)) == 1


@pytest.mark.parametrize(
    ("source", "floor"),
    [
        ("from variorum.errors import NotFound", "spec"),
        ("from variorum.spec.model import Model", "family"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from variorum.study import Plan", "spec"),
        ("from . import vocabulary", "text"),
        ("from .encoding import Encoding", "text"),
        ("model.eval()", "model"),
        ("safetensors.torch.load_file(path)", "checkpoint"),
        ("import torch", "parts"),
    ],
)
def test_what_is_allowed_is_let_through(source: str, floor: str) -> None:
    assert violations(source, floor) == []
