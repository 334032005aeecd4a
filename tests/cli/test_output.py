"""One result, three readers: a person, a program that wants a document, a program that reads line by line."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from pathlib import Path

import pytest

from variorum.cli import output
from variorum.cli.output import Column, emit

ROWS = [
    {"model": "bert", "parameters": 109_482_240, "share": 0.123456, "note": None},
    {"model": "deberta-v3", "parameters": 7, "share": math.nan, "note": "tied"},
]


@dataclasses.dataclass(frozen=True)
class Point:
    name: str
    at: tuple[int, int]


class Axis(enum.Enum):
    POSITIONS = "positions"


def test_a_table_aligns_words_left_and_figures_right(capsys: pytest.CaptureFixture[str]) -> None:
    emit(ROWS, ("model", Column("parameters", "trained"), Column("share", show=lambda value: f"{value:.0%}"), "note"))
    assert capsys.readouterr().out.splitlines() == [
        "model           trained  share  note",
        "bert        109,482,240    12%",
        "deberta-v3            7   nan%  tied",
    ]


def test_json_is_one_document_with_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    emit(ROWS, ("model",), "json")
    read = json.loads(capsys.readouterr().out)
    assert read[0] == ROWS[0]
    assert read[1]["share"] is None


def test_jsonl_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    emit(ROWS, format="jsonl")
    assert [json.loads(line)["model"] for line in capsys.readouterr().out.splitlines()] == ["bert", "deberta-v3"]


def test_one_object_prints_as_names_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    emit(Point("here", (1, 2)))
    assert capsys.readouterr().out == "name  here\nat    1, 2\n"


def test_the_text_for_people_is_for_people_only(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"a": 1}, human="one a\n")
    emit({"a": 1}, format="jsonl", human="one a")
    assert capsys.readouterr().out == 'one a\n{"a": 1}\n'


def test_an_empty_table_still_has_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    emit([], ("model", "parameters"))
    emit([], format="json")
    assert capsys.readouterr().out == "model  parameters\n[]\n"


def test_dataclasses_enums_paths_and_arrays_become_plain_json() -> None:
    numpy = pytest.importorskip("numpy")
    value = {"point": Point("x", (1, 2)), "axis": Axis.POSITIONS, "path": Path("a/b"), "v": numpy.ones(2)}
    assert output.plain(value) == {
        "point": {"name": "x", "at": [1, 2]},
        "axis": "positions",
        "path": "a/b",
        "v": [1.0, 1.0],
    }


def test_text_from_a_file_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    emit([{"name": "\x1b]0;owned\x07\x1b[31mred"}])
    emit({}, human="\x9b2Jgone")
    assert capsys.readouterr().out == "name\n]0;owned[31mred\n2Jgone\n"


def test_on_a_terminal_long_words_wrap_inside_their_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    lines = output.table([{"field": "positions", "reason": "a fresh mask each epoch gives more signal", "cost": 12}])
    assert max(map(len, lines)) <= 40
    assert lines[1].startswith("positions  a fresh mask")
    assert lines[1].endswith("  12")
    assert lines[2].startswith("           ")
