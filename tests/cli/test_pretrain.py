"""``variorum pretrain`` and ``resume``: the plan first, the same command goes on, and what comes out loads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import variorum
from tests.faults import runs
from variorum.cli import main
from variorum.training import pretrain as job

SMALL = ("--length", "32", "--batch", "4", "--vocab", "300", "--threads", "1", "--eval-every", "2")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text(runs.text(40))
    return path


def pretrain(texts: Path, out: Path, *more: str, budget: str = "4steps") -> int:
    return main(
        ["pretrain", "gpt2", str(texts), "--out", str(out), "--scale", "nano", "--budget", budget, *SMALL, *more]
    )


def test_a_run_says_its_plan_and_leaves_a_model_a_card_and_a_log(texts, tmp_path, capsys):
    out = tmp_path / "run"
    assert pretrain(texts, out, "--format", "json") == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert (told["steps"], told["ended"]) == (4, "finished")
    assert told["low"] < told["held_out"] < told["high"]
    assert re.search(r"4 steps: \d+:\d\d to \d+:\d\d", said.err) and "gpt2: 0.00025, × 6 for the width" in said.err
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 2, 3, 4, 4]
    assert rows[2]["perplexity_low"] < rows[2]["perplexity"] < rows[2]["perplexity_high"]
    model = variorum.load(out / "model")
    assert model.tokenizer.vocab_size == model.spec.architecture.vocab == 300
    assert "trained here" in (out / "README.md").read_text()
    assert main(["generate", str(out / "model"), "The whale", "--max-new-tokens", "2"]) == 0


def test_the_same_command_goes_on_and_another_one_is_refused(texts, tmp_path, capsys):
    out = tmp_path / "run"
    assert pretrain(texts, out) == 0
    before = (out / "metrics.jsonl").read_bytes()
    assert pretrain(texts, out) == 0
    assert "going on from step 4" in capsys.readouterr().err
    assert (out / "metrics.jsonl").read_bytes() == before
    assert pretrain(texts, out, "--rate", "0.1") == 2
    assert "asked for another wishes" in capsys.readouterr().err
    assert main(["resume", str(out)]) == 0


def test_an_interrupted_command_ends_with_the_line_that_goes_on(texts, tmp_path, capsys, monkeypatch):
    out = tmp_path / "run"
    real = job.go_on
    monkeypatch.setattr(job, "go_on", lambda *given, **more: real(*given, **{**more, "stopped": lambda: True}))
    assert pretrain(texts, out) == 130
    assert f"to go on: variorum resume {out}" in capsys.readouterr().err
    monkeypatch.setattr(job, "go_on", real)
    assert main(["resume", str(out)]) == 0
    assert "going on from step 1" in capsys.readouterr().err


def test_a_dry_run_plans_and_trains_nothing(texts, tmp_path, capsys):
    assert pretrain(texts, tmp_path / "run", "--dry-run") == 0
    assert not (tmp_path / "run" / "run.json").exists()
    assert pretrain(texts, tmp_path / "run", "--time-limit", "0.0001") == 5
    assert "is allowed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "code", "line"),
    [
        (("--set", "objective.kind=text_to_text"), 2, "encoder-decoder"),
        (("--validation", "0", "--patience", "2"), 2, "nothing is held out"),
        (("--tokenizer", "/nowhere"), 3, "/nowhere"),
        (("--by", "file"), 2, "cannot be split"),
    ],
)
def test_a_mistake_is_one_line(given, code, line, texts, tmp_path, capsys):
    assert pretrain(texts, tmp_path / "run", *given) == code
    said = capsys.readouterr().err.strip().splitlines()
    assert line in said[-1] and said[-1].startswith("variorum: ")


@pytest.mark.parametrize("budget", ["soon", "0steps", "5 apples"])
def test_a_budget_that_is_none_is_one_line(budget, texts, tmp_path, capsys):
    assert pretrain(texts, tmp_path / "run", budget=budget) == 2
    assert f"{budget!r} is no budget" in capsys.readouterr().err


def test_resume_needs_a_run(tmp_path, capsys):
    assert main(["resume", str(tmp_path)]) == 3
    assert "no run is there" in capsys.readouterr().err
