"""``make coverage``: every mechanism of the family with the tests that hold it and the command that reaches it.

The list is ``tests/mechanisms.tsv``; the tests say what they hold with ``@pytest.mark.mechanism("P4")``. A line without
both is open. A marker that names no line of the list is an error, here and in every test run.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from variorum.cli import VERBS
from variorum.cli.output import table

LIST = Path(__file__).parents[1] / "mechanisms.tsv"


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One line of the list: its id, what it is, and the command or call that reaches it (empty if none does yet)."""

    id: str
    title: str
    reach: str


def mechanisms() -> list[Mechanism]:
    """The list, in its own order."""
    with LIST.open(encoding="utf-8", newline="") as stream:
        return [Mechanism(**row) for row in csv.DictReader(stream, delimiter="\t")]


def unknown(items: Iterable[pytest.Item]) -> list[str]:
    """The marks of ``items`` that name no mechanism, each with its test."""
    known = {mechanism.id for mechanism in mechanisms()}
    return [
        f"{item.nodeid} marks {name}, which is not in {LIST.name}"
        for item in items
        for mark in item.iter_markers("mechanism")
        for name in mark.args
        if name not in known
    ]


def reachable(reach: str) -> bool:
    """Whether a command names a verb, or a call a public name, that exists."""
    words = reach.split()
    if len(words) >= 2 and words[0] == "variorum":
        return words[1] in {verb.name for verb in VERBS}
    name = reach.partition("(")[0]
    module, _, attribute = name.rpartition(".")
    try:
        return bool(module) and hasattr(importlib.import_module(module), attribute)
    except ImportError:
        return False


class Collected:
    """The pytest plugin that notes the marks of every test that pytest finds."""

    def __init__(self) -> None:
        self.tests: Counter[str] = Counter()
        self.cases: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            self.tests.update({name for mark in item.iter_markers("mechanism") for name in mark.args})
            self.cases.update(name for mark in item.iter_markers("case") for name in mark.args)


def main() -> int:
    """Print the table, the open lines and the counts; 1 if the tests cannot be collected or mark unknown ids."""
    collected, said = Collected(), io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(["--collect-only", "-qq", str(LIST.parent)], plugins=[collected])
    if code != pytest.ExitCode.OK:
        print(said.getvalue(), file=sys.stderr)
        return 1
    lines = mechanisms()
    rows = [
        {"id": line.id, "tests": collected.tests[line.id], "command or call": line.reach, "title": line.title}
        for line in lines
    ]
    print("\n".join(table(rows)))
    tested = {line.id for line in lines if collected.tests[line.id]}
    reached = {line.id for line in lines if reachable(line.reach)}
    print("\nopen:")
    for line in lines:
        lacks = [what for what, has in (("a test", tested), ("a command or call", reached)) if line.id not in has]
        if lacks:
            print(f"  {line.id:<4} lacks {' and '.join(lacks)}: {line.title}")
    both = len(tested & reached)
    print(f"\n{len(lines)} mechanisms: {len(tested)} held by a test, {len(reached)} reached by a command or call,")
    print(f"{both} both, {len(lines) - both} open; {len(collected.cases)} known failures kept out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
