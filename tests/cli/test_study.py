"""``study honesty`` counts verdicts of studies in which nothing is to be found."""

from __future__ import annotations

import json

import pytest

from variorum.cli import main
from variorum.tasks.metrics import paired

Capture = pytest.CaptureFixture[str]


def test_every_kind_of_study_has_a_line_and_is_honest(capsys: Capture) -> None:
    assert main(("study", "honesty", "--studies", "20", "--format", "json")) == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)["simulated"]
    assert len(rows) == 96 and all(row["honest"] for row in rows)
    assert err.splitlines()[-1] == "96 of 96 kinds of study"


def test_a_dishonest_kind_is_a_failed_check(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "quantile_t", lambda df, alpha: 0.5)
    assert main(("study", "honesty", "--studies", "20")) == 6
    assert capsys.readouterr().err.splitlines()[-1].startswith("variorum: honesty: ")
