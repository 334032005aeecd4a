"""The list of mechanisms is whole, and the table built from it cannot flatter."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.tools import coverage

SERIES = {"P": 10, "N": 8, "A": 14, "K": 7, "F": 6, "E": 5, "T": 7, "I": 4, "O": 14, "R": 10, "H": 8, "G": 6, "D": 4,
          "C": 25, "M": 0, "X": 0, "Z": 23}  # fmt: skip


def test_every_series_is_listed_without_a_gap() -> None:
    expected = [f"{letter}{number}" for letter, last in SERIES.items() for number in range(1, last + 1)] + ["M", "X"]
    assert Counter(line.id for line in coverage.mechanisms()) == Counter(expected)


def test_every_line_has_a_title_and_every_command_exists() -> None:
    for line in coverage.mechanisms():
        assert line.title.strip()
        assert not line.reach or coverage.reachable(line.reach), f"{line.id}: {line.reach} does not exist"


@pytest.mark.parametrize(
    ("reach", "exists"),
    [
        ("variorum doctor", True),
        ("variorum nothing", False),
        ("variorum.errors.nearest(name)", True),
        ("variorum.errors.nothing(name)", False),
        ("nowhere.at_all()", False),
        ("", False),
    ],
)
def test_a_command_or_call_counts_only_if_it_exists(reach: str, exists: bool) -> None:
    assert coverage.reachable(reach) is exists


def test_a_mark_that_names_no_mechanism_stops_the_run(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(Path(coverage.__file__).parents[1].joinpath("conftest.py").read_text("utf-8"))
    pytester.makeini("[pytest]\nmarkers = mechanism")
    pytester.makepyfile("import pytest\n@pytest.mark.mechanism('P4', 'Q1')\ndef test_it(): pass")
    done = pytester.runpytest_inprocess("--collect-only")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert re.search(r"test_it marks Q1, which is not in mechanisms.tsv", str(done.stderr))
