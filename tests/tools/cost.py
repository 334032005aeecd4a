"""``make cost``: the lines that one more model takes, given its ancestor: the diff with its reasons, the weight map.

Counted are the non-blank lines, comments too, of the statements that define the model and its dialect, and of every
constant or function in those files that nothing else uses. Its published sizes are data about named checkpoints, one
row each; their lines are counted apart. Code that other models use too is not the cost of this one.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import variorum.family
from variorum.family import find

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


#: Those that the promise names one by one.
NAMED = ("roberta", "mistral")
#: Models that need no part which their ancestor had not: the file of the spec and its object, the file of the names and
#: theirs, where they are not published as their ancestor is.
MODELS = (
    ("roberta", "bert.py", "ROBERTA", "bert.py", "ROBERTA_NAMES"),
    ("xlm-roberta", "bert.py", "XLM_ROBERTA", "bert.py", "XLM_ROBERTA_NAMES"),
    ("distilbert", "bert.py", "DISTILBERT", "bert.py", "DISTILBERT_NAMES"),
    ("muril", "bert.py", "MURIL", "", ""),
    ("minilm", "sentence.py", "MINILM", "", ""),
    ("e5", "sentence.py", "E5", "", ""),
    ("bge", "sentence.py", "BGE", "", ""),
    ("gpt-3", "gpt.py", "GPT3", "", ""),
    ("llama-2", "gpt.py", "LLAMA2", "", ""),
    ("llama-3", "gpt.py", "LLAMA3", "", ""),
    ("smollm2", "gpt.py", "SMOLLM2", "", ""),
    ("mistral", "gpt.py", "MISTRAL", "llama.py", "MISTRAL_NAMES"),
    ("gemma", "gemma.py", "GEMMA", "gemma.py", "GEMMA_NAMES"),
    ("qwen2", "qwen.py", "QWEN2", "qwen.py", "QWEN2_NAMES"),
    ("qwen2.5", "qwen.py", "QWEN25", "", ""),
    ("qwen3", "qwen.py", "QWEN3", "qwen.py", "QWEN3_NAMES"),
    ("qwen3-moe", "qwen.py", "QWEN3_MOE", "qwen.py", "QWEN3_MOE_NAMES"),
    ("pythia", "neox.py", "PYTHIA", "", ""),
    ("falcon-grouped", "falcon.py", "FALCON_GROUPED", "", ""),
    ("palm", "palm.py", "PALM", "", ""),
    ("t5-v1_1", "t5.py", "T5_V1_1", "", ""),
    ("flan-t5", "t5.py", "FLAN_T5", "", ""),
    ("mt5", "t5.py", "MT5", "t5.py", "MT5_NAMES"),
    ("byt5", "t5.py", "BYT5", "", ""),
    ("mbart", "bart.py", "MBART", "bart.py", "MBART_NAMES"),
    ("pegasus", "bart.py", "PEGASUS", "bart.py", "PEGASUS_NAMES"),
)


def costs() -> list[Cost]:
    """Every model of the table, given its ancestor."""
    return [
        cost(
            name, find(name).lineage[-2].name, (FAMILY / spec).read_text("utf-8"), model,
            (FAMILY / "names" / names).read_text("utf-8") if names else "", dialect,
        )
        for name, spec, model, names, dialect in MODELS
    ]  # fmt: skip


def cost(name: str, given: str, spec: str, model: str, names: str = "", dialect: str = "") -> Cost:
    """Count ``model`` in the source ``spec`` and ``dialect`` in the source ``names``."""
    mine, data = _owned(spec, model)
    theirs, more = _owned(names, dialect) if names else (set(), set())
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
    """Print the table; fail where a named model, or the median of all, costs more than the promise."""
    print(f"{'model':15} {'given':12} {'spec':>5} {'names':>6} {'total':>6}   sizes (data)")
    found = costs()
    for one in found:
        print(f"{one.name:15} {one.given:12} {one.spec:5} {one.names:6} {one.total:6}   {one.sizes}")
    middle = statistics.median(one.total for one in found)
    print(f"median of {len(found)}: {middle:g}")
    over = [f"{one.name} costs {one.total}" for one in found if one.name in NAMED and one.total > LIMIT]
    over += [f"the median is {middle:g}"] if middle > LIMIT else []
    for line in over:
        print(f"{line} lines, more than {LIMIT}", file=sys.stderr)
    return min(len(over), 1)


if __name__ == "__main__":
    raise SystemExit(main())
