"""``choose`` on a table: a bake-off, a recommendation below the ceilings, and exit 5 where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.study import written
from tests.tools.command import refused
from variorum.cli import main

SMALL = ("--seeds", "2", "--epochs", "1", "--max-length", "16", "--workers", "1")


def test_the_best_arm_below_the_ceilings_is_recommended(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data = written.pairs(tmp_path / "pairs.csv")
    words = ["choose", str(data), "--task", "pairs", "--models", "small head: head:nano", *SMALL]
    words += ["--out", str(tmp_path)]
    assert main([*words, "--latency", "5s", "--memory", "4GB", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    arms = {arm["name"]: arm for arm in found["studies"][0]["arms"]}
    best = max(arms.values(), key=lambda arm: arm["mean"])
    assert found["choice"]["take"] == best["name"] and {found["choice"]["runner_up"], best["name"]} == {*arms}
    assert "tried: small head: head:nano" in err
    assert f"Take {best['title']}" in (tmp_path / "report.html").read_text("utf-8")
    assert main([*words, "--latency", "1us"]) == 5
    err = capsys.readouterr().err
    assert "all ready: nothing to compute" in err and "Nothing keeps below the ceilings." in err.splitlines()[-1]


def test_mistakes_are_one_line(tmp_path: Path):
    assert "a table or a need" in refused("choose", code=2)
    assert "a table or a need" in refused("choose", "x.csv", "--need", "generation", code=2)
    assert "write 20ms" in refused("choose", "x.csv", "--latency", "soon", code=2)
    assert "no such file" in refused("choose", str(tmp_path / "x.csv"), "--latency", "1s", code=3).lower()
