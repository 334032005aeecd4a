"""``tree`` draws the lineage, tells how one model was made, and finds the changes that answer a pressure."""

from __future__ import annotations

import pytest

from tests.cli.verbs import answered, listed, refused, said
from variorum.family import models

Capture = pytest.CaptureFixture[str]


def test_every_model_hangs_below_its_ancestor(capsys: Capture) -> None:
    lines = said(capsys, "tree").splitlines()
    names = [line.lstrip("│├└─ ").split()[0] for line in lines]
    assert sorted(names) == sorted(models())
    depth = {name: line.index(name) // 3 for name, line in zip(names, lines, strict=True)}
    for name, model in models().items():
        assert depth[name] == len(model.lineage) - 1
        if model.ancestor is not None:
            above = [n for n in names[: names.index(name)] if depth[n] == depth[name] - 1]
            assert above[-1] == model.ancestor.name


def test_one_model_brings_its_kin_and_how_it_was_made(capsys: Capture) -> None:
    text = said(capsys, "tree", "mistral-7b-v0.1")
    assert [row["name"] for row in answered(capsys, "tree", "mistral")] == [
        "gpt2", "llama", "llama-2", "mistral", "mixtral",
    ]  # fmt: skip
    assert "mistral is llama-2 with" in text
    assert "each layer looks back 4096 tokens (relieves quadratic-attention)" in text
    assert "published as  mistral-7b-v0.1" in text


def test_lines_carry_changes_with_reasons(capsys: Capture) -> None:
    rows = {row["name"]: row for row in listed(capsys, "tree")}
    assert rows["bert"]["ancestor"] is None
    assert "useless-objective" in rows["bert"]["weaknesses"]
    change = next(c for c in rows["roberta"]["changes"] if c["path"] == "objective.pair")
    assert (change["value"], change["relieves"]) == (None, "useless-objective")


def test_what_relieves_a_pressure_is_found_with_its_reason(capsys: Capture) -> None:
    rows = {row["model"]: row for row in answered(capsys, "tree", "--relieves", "kv-memory")}
    assert {"llama-3", "mistral", "gemma-2", "gemma-3", "deepseek-v3"} <= set(rows)
    assert rows["gemma-3"]["why"] == "five local layers for one global"
    assert (rows["gemma-3"]["before"], rows["gemma-3"]["after"]) == ("4,096", "512")
    text = said(capsys, "tree", "--relieves", "kv-memory")
    assert text.startswith("kv-memory weighs on ")
    assert {"gpt2", "llama", "llama-2"} <= set(text.splitlines()[0].removeprefix("kv-memory weighs on ").split(", "))


def test_kin_and_pressure_together_narrow_the_answer(capsys: Capture) -> None:
    rows = answered(capsys, "tree", "gemma", "--relieves", "kv-memory")
    assert {row["model"] for row in rows} == {"gemma-2", "gemma-3"}


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["tree", "mistrla"], 3, "did you mean mistral"),
        (["tree", "--relieves", "kvmemory"], 2, "did you mean kv-memory"),
        (["tree", "roberta", "--relieves", "kv-memory"], 3, "no change among these models relieves kv-memory"),
    ],
)
def test_what_is_not_there_is_one_line(capsys: Capture, words: list[str], code: int, part: str) -> None:
    got, line = refused(capsys, *words)
    assert got == code
    assert part in line
