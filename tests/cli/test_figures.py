"""Figures for people: the interval stands behind its figure, and what has parts is a table of its own."""

from __future__ import annotations

from variorum.cli.figures import human
from variorum.cli.output import choose

TYPES = {"LOC": {"f1": 0.5, "support": 2}, "PER": {"f1": 1.0, "support": 3}}


def test_models_are_set_side_by_side_and_types_below() -> None:
    rows = [{"model": "a/b/c", "f1": 0.75, "words": 9, "types": TYPES, "low": 0.5, "high": 1.0}, {"model": "simple"}]
    text = human(rows)
    assert text is not None
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["model", "f1", "low", "high", "words"]
    assert lines[1] == ["b/c", "0.75", "0.5", "1", "9"]
    assert lines[3:] == [[], ["types", "f1", "support"], ["LOC", "0.5", "2"], ["PER", "1", "3"]]


def test_one_model_is_a_list_and_its_parts_are_one_table() -> None:
    text = human([{"f1": 0.75, "answerable": {"f1": 1.0}, "unanswerable": {"f1": 0.5}, "low": 0.5, "high": 1.0}])
    assert text is not None
    lines = [line.split() for line in text.splitlines()]
    assert lines == [["f1", "0.75"], ["low", "0.5"], ["high", "1"], [], ["of", "f1"], ["answerable", "1"],
                     ["unanswerable", "0.5"]]  # fmt: skip


def test_programs_get_rows_as_they_are() -> None:
    choose("json")
    try:
        assert human([{"f1": 1.0}]) is None
    finally:
        choose("human")
