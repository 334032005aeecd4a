"""What the page on pretraining shows: its commands train, its table and curves are those of the runs it tells of."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

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


@pytest.fixture(scope="module")
def trained() -> ModuleType:
    found = importlib.util.spec_from_file_location("trained", ROOT / "docs" / "trained.py")
    assert found is not None
    assert found.loader is not None
    module = sys.modules["trained"] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_table_and_the_curves_are_those_of_the_runs(trained: ModuleType):
    found = json.loads(trained.RUNS.read_text("utf-8"))
    assert [one["name"] for one in found] == [
        run.name for run in trained.TRAINED if run.name in {o["name"] for o in found}
    ]
    for path, text in trained.files(found).items():
        assert path.read_text("utf-8") == text, f"{path.name}: run `python docs/trained.py`"


def test_every_model_that_was_trained_learned_more_than_how_often_words_occur(trained: ModuleType):
    for one in json.loads(trained.RUNS.read_text("utf-8")):
        _, _, high = trained.words(one["scores"][-1])
        assert high < one["by_frequency"], one["name"]
