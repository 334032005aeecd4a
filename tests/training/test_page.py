"""What the page on pretraining shows: its commands train."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.faults import runs
from variorum.cli import main
from variorum.spec.small import SCALES, Scale

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pretraining.md").read_text("utf-8")
COMMANDS = re.findall(r"^\| `variorum (pretrain .*?)` \|", PAGE, re.MULTILINE)
TINY = "--scale nano --length 32 --batch 4 --vocab 320 --threads 1 --budget 2steps"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_objective_of_the_page_trains(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(SCALES, "nano", Scale(16, 2, 2))
    texts, out = tmp_path / "texts.txt", tmp_path / "run"
    texts.write_text(runs.text(40))
    verb, spec, *more = shlex.split(command)
    assert main([verb, spec, str(texts), *more, *shlex.split(TINY), "--out", str(out)]) == 0
    assert (out / "model" / "config.json").exists()
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 4
