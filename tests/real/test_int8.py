"""int8 weights on a model that people run: what they cost on a chapter, and that they still know things."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import variorum
from tests.real.test_gguf import chapter, smollm
from tests.tools.command import here as run
from variorum.inference.harm import harm
from variorum.inference.prepared import prepare

pytestmark = pytest.mark.real_weights
MOST = 0.01


def test_int8_costs_less_than_a_percent_of_perplexity_on_a_chapter() -> None:
    model = variorum.load(smollm())
    cost = harm(model, prepare(model, "int8"), chapter())
    assert cost.measure == "perplexity" and cost.tokens > 1500
    assert 10 < cost.before < 60
    assert cost.relative <= MOST


def test_a_converted_model_still_knows_the_capital_of_japan(tmp_path: Path) -> None:
    done = run("convert", str(smollm()), str(tmp_path / "int8"), "--weights", "int8", "--format", "json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["measure"] == "perplexity" and said["after"] / said["before"] - 1 <= MOST
    written = run("generate", str(tmp_path / "int8"), "The capital of Japan is", "--max-new-tokens", "8", "--weights",
                  "int8")  # fmt: skip
    assert written.returncode == 0, written.stderr
    assert written.stdout.startswith("The capital of Japan is Tokyo")
