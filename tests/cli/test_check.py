"""``variorum check`` tells each claim with its figure, and ends with 6 where one does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli import models
from tests.cli.verbs import answered, listed, refused, said
from variorum.checks import streams
from variorum.cli import main

Capture = pytest.CaptureFixture[str]


@pytest.mark.mechanism("C4")
def test_people_get_the_claim_the_figures_and_the_proof(capsys: Capture) -> None:
    heading, claim, figures, proof, *rest = said(capsys, "check", "receptive-field", "--model", "mistral").splitlines()
    assert heading == "receptive-field (C4, mistral)"
    assert claim == "  holds    each layer of window 8 reaches 7 tokens further"
    assert figures.strip() == "found 8, 15, 22, 29, 36, 43; expected 8, 15, 22, 29, 36, 43"
    assert "gradient on one state" in proof and "131,041" in proof
    assert rest == []


def test_programs_get_all_of_it(capsys: Capture) -> None:
    rows = answered(capsys, "check", "C11", "batch-norm")
    assert {row["id"] for row in rows} == {"C11", "C25"}
    assert all(row["holds"] is True and row["how"] for row in rows)
    assert listed(capsys, "check", "C11", "batch-norm") == rows


def test_the_list_says_how_long_each_takes(capsys: Capture) -> None:
    rows = answered(capsys, "check", "--list")
    assert len(rows) >= 28 and all(row["seconds"] > 0 and row["title"] for row in rows)
    assert said(capsys, "check", "D3", "--list").splitlines()[1].startswith("soft-targets  D3")


def test_a_claim_that_does_not_hold_ends_with_six(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "EXAMPLE", [0, 1, 2, 3, 4, 5])
    assert main(["check", "two-stream-masks"]) == 6
    out, err = capsys.readouterr()
    assert "FAILS    the example's order" in out
    assert err.count("\n") == 1 and "two-stream-masks: " in err and "claims do not hold" in err


@pytest.mark.mechanism("C16")
def test_weights_are_tried_as_they_are(capsys: Capture, tmp_path: Path) -> None:
    here = str(models.bert(tmp_path / "bert"))
    rows = answered(capsys, "check", "causal-leakage", "appended-token", "--model", here, "gpt2")
    assert [row["model"] for row in rows] == [here, "gpt2", "gpt2", here, "gpt2"]
    assert all(row["holds"] for row in rows)


def test_without_names_a_model_is_tried_on_all_that_is_about_it(capsys: Capture) -> None:
    assert main(["check", "--model", "gpt2"]) == 0
    out, err = capsys.readouterr()
    assert {"causal-leakage (C16, gpt2)", "kv-cache (C5, gpt2)"} <= set(out.splitlines())
    assert "receptive-field: gpt2 has no window; name mistral or modernbert" in err


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["C99"], 3, "no check is called 'C99'"),
        (["signal-density", "--model", "bert"], 2, "signal-density is about no one model"),
        (["cls-token", "--model", "gpt2"], 2, "gpt2 is no encoder"),
        (["cls-token", "--model", "brt"], 3, "brt"),
        (["cls-token", "--model", "no/where"], 3, "no/where"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys: Capture, words: list[str], code: int, line: str) -> None:
    found, told = refused(capsys, "check", *words)
    assert found == code and line in told
