"""``show`` is the inventory: what was chosen, what is trained, what lives during a run, and what is allowed."""

from __future__ import annotations

import math

import pytest

from tests.cli.verbs import answered, refused, said
from variorum.family import find, models
from variorum.spec.rules import USES
from variorum.spec.size import size

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", models())
def test_learned_tensors_sum_to_the_size(capsys: Capture, name: str) -> None:
    rows = answered(capsys, "show", name, "--kind", "learned")
    assert sum(row["count"] for row in rows) == size(find(name), context=1).parameters
    assert all(row["count"] == math.prod(row["shape"]) for row in rows)
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)


def test_learned_tensors_of_alike_layers_share_a_line(capsys: Capture) -> None:
    lines = said(capsys, "show", "bert", "--kind", "learned").splitlines()
    query = next(line for line in lines if line.startswith("encoder.layers.0–11.attention.query.weight"))
    assert query.split()[-3:] == ["12", "7,077,888", "6.46%"]
    assert lines[-1].split() == ["all", "199", "109,482,240", "100.00%"]


@pytest.mark.mechanism("E4")
def test_a_shared_layer_is_listed_once(capsys: Capture) -> None:
    names = [row["name"] for row in answered(capsys, "show", "albert", "--kind", "learned")]
    assert {name.split(".")[2] for name in names if ".layers." in name} == {"0"}


def test_config_lists_every_choice_with_its_path(capsys: Capture) -> None:
    rows = {row["path"]: row["value"] for row in answered(capsys, "show", "Bert-Base-Cased")}
    assert rows["architecture.encoder.input.vocab"] == 28_996
    assert rows["architecture.encoder.block.feedforward"] == "MLP"
    assert rows["tokenizer.cased"] is True
    assert rows["objective.pair"] == "next_sentence"
    assert rows["recipe.steps"] == 1_000_000
    text = said(capsys, "show", "roberta")
    assert "lineage       transformer → bert → roberta" in text


@pytest.mark.parametrize("name", ["llama-2-7b", "gemma-2-9b", "deepseek-v3", "t5-base", "bert"])
def test_state_has_the_cache_that_size_tells(capsys: Capture, name: str) -> None:
    rows = answered(capsys, "show", name, "--kind", "state", "--context", "500", "--batch", "3")
    kept = sum(row["bytes"] for row in rows if ".layers." in row["name"])
    assert kept == size(find(name), context=500, batch=3).cache
    assert all(row["bytes"] == math.prod(row["shape"]) * int(row["formula"].rpartition("·")[2]) for row in rows)


def test_state_says_how_long_each_tensor_lives(capsys: Capture) -> None:
    text = said(capsys, "show", "gemma-2-9b", "--kind", "state", "--context", "8192")
    assert "B·K·min(T, 4096)·d·2" in text
    assert text.splitlines()[-1] == "kept from step to step: 1.97 GiB"
    assert said(capsys, "show", "bert", "--kind", "state").splitlines()[-1] == "nothing is kept from pass to pass"


def test_rules_say_what_fits_and_why_the_rest_does_not(capsys: Capture) -> None:
    rows = {row["use"]: row for row in answered(capsys, "show", "bert", "--kind", "rules")}
    assert set(rows) == set(USES)
    assert rows["fill_mask"]["fits"]
    assert not rows["generate"]["fits"]
    assert "cannot generate left to right" in rows["generate"]["why_not"]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["show", "albrt"], 3, "did you mean albert"),
        (["show", "bert", "--kind", "learnt"], 2, "learned"),
        (["show", "bert", "--kind", "state", "--batch", "0"], 2, "at least one"),
        (["show", "gpt2", "--kind", "learned", "--head", "casual_lm"], 3, "did you mean causal_lm"),
    ],
)
def test_what_cannot_be_is_one_line(capsys: Capture, words: list[str], code: int, part: str) -> None:
    got, line = refused(capsys, *words)
    assert got == code
    assert part in line
