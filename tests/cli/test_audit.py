"""``variorum audit`` tells people a table, programs the whole, and a pipeline an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli import models
from tests.cli.verbs import answered, said
from variorum.cli import main


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.csv"
    lines = [
        f"{i},the {'cat purrs' if i % 2 else 'dog barks'} at number {i} of our long street,{'ab'[i % 2]}"
        for i in range(60)
    ]
    file.write_text("\n".join(["id,body,kind", *lines, *lines[:2]]) + "\n")
    return file


def words(rows: Path) -> list[str]:
    return ["audit", str(rows), "--text-column", "body", "--label-column", "kind"]


def test_people_get_figures_and_findings_with_their_lines(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, *words(rows))
    assert "rows             62" in page or "rows" in page.splitlines()[0]
    line = next(line for line in page.splitlines() if "same text as an earlier row" in line)
    assert line.startswith("worth a look") and "62, 63" in line


def test_programs_get_all_of_it(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = answered(capsys, *words(rows))
    assert data["figures"]["balance"] == {"a": 31, "b": 31}
    assert next(one for one in data["findings"] if one["check"] == "duplicates")["lines"] == [62, 63]


def test_strict_ends_with_six_where_something_is_serious(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words(rows), "--test", str(rows)]) == 0
    assert main([*words(rows), "--test", str(rows), "--strict"]) == 6
    out, err = capsys.readouterr()
    assert "a test row that is also learned from" in out
    assert err.count("\n") == 1 and err.startswith(f"variorum: {rows}: ") and "serious" in err
    assert main([*words(rows), "--strict", "--no-labels"]) == 0


def test_a_model_says_what_it_cuts(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = answered(capsys, *words(rows), "--model", str(models.bert(tmp_path / "bert")))
    assert data["figures"]["limit"] >= 16
    assert data["figures"]["tokens"]["longest"] > data["figures"]["words"]["longest"]


def test_an_encoder_helps_to_find_wrong_labels(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = rows.read_text().splitlines()
    lines[7] = lines[7].removesuffix("a").removesuffix("b") + ("a" if lines[7].endswith("b") else "b")
    rows.write_text("\n".join(lines) + "\n")
    data = answered(capsys, *words(rows), "--vectors", str(models.bert(tmp_path / "bert")))
    assert [one["line"] for one in data["figures"]["suspected_labels"]] == [8]


def test_a_wrong_column_names_the_nearest(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(rows), "--text-column", "bod", "--label-column", "kind"]) == 3
    assert "did you mean body?" in capsys.readouterr().err
