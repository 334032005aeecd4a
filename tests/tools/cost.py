"""``make cost``: the lines that one more model takes, given its ancestor: the diff with its reasons, the weight map.

Counted are the non-blank lines, comments too, of the statements that define the model and its dialect, and of every
constant or function in those files that nothing else uses. Its published sizes are data about named checkpoints, one
row each; their lines are counted apart. Code that other models use too is not the cost of this one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import variorum.family

LIMIT = 20
FAMILY = Path(variorum.family.__file__).parent


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Lines of one model. ``spec`` and ``names`` say what the engine is told, ``sizes`` which checkpoints there are."""

    name: str
    given: str
    spec: int
    names: int
    sizes: int

    @property
    def total(self) -> int:
        """What the model costs."""
        return self.spec + self.names


#: name, ancestor, file of the spec, its objects, file of the names, theirs
MODELS = (
    ("roberta", "bert", "bert.py", "ROBERTA", "names/bert.py", "ROBERTA_NAMES"),
    ("mistral", "llama", "gpt.py", "MISTRAL", "names/llama.py", "MISTRAL_NAMES"),
)


def costs() -> list[Cost]:
    """The models that the promise names."""
    return [
        cost(name, given, (FAMILY / spec).read_text(), model, (FAMILY / names).read_text(), dialect)
        for name, given, spec, model, names, dialect in MODELS
    ]


def cost(name: str, given: str, spec: str, model: str, names: str, dialect: str) -> Cost:
    """Count ``model`` in the source ``spec`` and ``dialect`` in the source ``names``."""
    mine, data = _owned(spec, model)
    theirs, more = _owned(names, dialect)
    return Cost(name=name, given=given, spec=len(mine), names=len(theirs), sizes=len(data) + len(more))


def _owned(source: str, name: str) -> tuple[set[int], set[int]]:
    """Line numbers of the statement that binds ``name`` and of what only it uses: its own, and those of its sizes."""
    statements = {bound: node for node in ast.parse(source).body for bound in _bound(node)}
    owned, sizes = {name}, set[str]()
    grown = True
    while grown:
        grown = False
        for other, node in statements.items():
            users = {user for user, one in statements.items() if one is not node and other in _read(one)}
            if other not in owned and users and users <= owned:
                owned.add(other)
                sizes |= {other} if users <= sizes or _is_sizes(statements[name], other) else set()
                grown = True
    lines = source.splitlines()
    code = _lines(lines, (statements[one] for one in owned - sizes))
    data = _lines(lines, (statements[one] for one in sizes)) | _lines(lines, _inline_sizes(statements[name]))
    return code - data, data


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []


def _read(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def _sizes_of(node: ast.stmt) -> list[ast.expr]:
    return [key.value for call in ast.walk(node) if isinstance(call, ast.Call) for key in call.keywords
            if key.arg == "sizes"]  # fmt: skip


def _is_sizes(node: ast.stmt, name: str) -> bool:
    return any(isinstance(value, ast.Name) and value.id == name for value in _sizes_of(node))


def _inline_sizes(node: ast.stmt) -> list[ast.expr]:
    return [value for value in _sizes_of(node) if not isinstance(value, ast.Name)]


def _lines(lines: list[str], nodes: Iterable[ast.stmt | ast.expr]) -> set[int]:
    """Numbers of the non-blank lines of the nodes, and of the comments right above them."""
    found: set[int] = set()
    for node in nodes:
        assert node.end_lineno is not None
        first = node.lineno
        while first > 1 and lines[first - 2].startswith("#"):
            first -= 1
        found |= {number for number in range(first, node.end_lineno + 1) if lines[number - 1].strip()}
    return found


def main() -> int:
    """Print the table; fail where a model costs more than the promise."""
    print(f"{'model':9} {'given':6} {'spec':>5} {'names':>6} {'total':>6}   sizes (data)")
    found = costs()
    for one in found:
        print(f"{one.name:9} {one.given:6} {one.spec:5} {one.names:6} {one.total:6}   {one.sizes}")
    over = [one for one in found if one.total > LIMIT]
    for one in over:
        print(f"{one.name} costs {one.total} lines, more than {LIMIT}", file=sys.stderr)
    return min(len(over), 1)


if __name__ == "__main__":
    raise SystemExit(main())
