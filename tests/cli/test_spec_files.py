"""A spec file, or a known model with --set, stands wherever a verb takes a spec; a verb that needs weights says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.verbs import answered, refused, said
from variorum.family import find

Capture = pytest.CaptureFixture[str]
DEEP = 'base = "bert-base-uncased"\nname = "deep"\n[[change]]\npath = "encoder.depth"\nvalue = 24\nwhy = "for test"\n'
KEYS = "encoder.block.attention.kv_heads=4"


@pytest.fixture
def deep(tmp_path: Path) -> str:
    path = tmp_path / "deep.toml"
    path.write_text(DEEP)
    return str(path)


def test_every_verb_on_specs_takes_a_file(deep: str, capsys: Capture) -> None:
    assert "for test" in said(capsys, "tree", deep)
    assert {row["path"]: row["value"] for row in answered(capsys, "show", deep)}["architecture.encoder.depth"] == 24
    assert answered(capsys, "size", deep)["name"] == "deep"
    names = {row["name"] for row in answered(capsys, "shapes", deep, "--length", "4")}
    assert "encoder.layers.23.attention" in names
    assert "bert-base-uncased → deep: 1 change in 1 place" in said(capsys, "diff", "bert-base-uncased", deep)


def test_every_verb_on_specs_takes_changes(capsys: Capture) -> None:
    shown = answered(capsys, "show", "bert", "--set", KEYS)
    assert {row["path"]: row["value"] for row in shown}["architecture.encoder.block.attention.kv_heads"] == 4
    shapes = {row["name"]: row["shape"] for row in answered(capsys, "shapes", "bert", "--set", KEYS)}
    assert shapes["encoder.layers.0.attention.key"] == [1, 512, 256]
    before, after = answered(capsys, "size", "bert")["parameters"], answered(capsys, "size", "bert", "--set", KEYS)
    assert before - after["parameters"] == 12 * 2 * (768 + 1) * 512
    both = answered(capsys, "size", "bert", "roberta", "--set", KEYS, "--set", "encoder.depth=2")
    assert [len(row["layers"]) for row in both] == [2, 2]


def test_changes_come_on_top_of_a_file(deep: str, capsys: Capture) -> None:
    found = answered(capsys, "diff", "bert-base-uncased", deep, "--set", "encoder.block.dropout=0")
    assert {change["path"]: change["after"] for change in found["changes"]} == {
        "architecture.encoder.depth": 24,
        "architecture.encoder.block.dropout": 0.0,
    }


def test_one_model_differs_from_itself_as_changed_or_from_its_ancestor(deep: str, capsys: Capture) -> None:
    assert [row["path"] for row in answered(capsys, "diff", "bert", "--set", KEYS)["changes"]] == [
        "architecture.encoder.block.attention.kv_heads"
    ]
    assert answered(capsys, "diff", "roberta")["from"] == "bert"
    assert [row["path"] for row in answered(capsys, "diff", deep)["changes"]] == ["architecture.encoder.depth"]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["size", "bert", "--set", "encoder.block.attention.kv_heds=4"], 3, "did you mean kv_heads"),
        (["size", "bert", "--set", "encoder.block.attention.kv_heads=many"], 2, "'many' is not a whole number"),
        (["size", "bert", "--set", "encoder.block.attention.kv_heads=5"], 2, "serves the same number of query heads"),
        (["size", "bert", "--set", "encoder.positions=Alib"], 2, "did you mean Alibi"),
        (["show", "gpt2", "--set", "decoder.mask=bidirectional"], 2, "only copy"),
        (["show", "bert", "--set", "encoder.depth"], 2, "write path=value"),
        (["diff", "transformer"], 2, "transformer has no ancestor to differ from"),
        (["show", "nowhere.toml"], 3, "nowhere.toml: no such spec file"),
        (["embed", "nowhere.toml", "--text", "a"], 3, "nowhere.toml: no such spec file"),
    ],
)
def test_what_cannot_be_is_one_line(words: list[str], code: int, part: str, capsys: Capture) -> None:
    got, line = refused(capsys, *words)
    assert got == code
    assert part in line


def test_a_verb_that_needs_weights_says_what_to_do(deep: str, capsys: Capture) -> None:
    for words in (["fill-mask", deep, "a [MASK]"], ["embed", deep, "--text", "a"]):
        code, line = refused(capsys, *words)
        assert code == 2
        assert "deep is a spec, and a spec has no weights; train what variorum.build(" in line
    code, line = refused(capsys, "generate", deep, "a")
    assert code == 2
    assert "deep is an encoder" in line


def test_a_damaged_file_is_named(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "bad.toml").write_text("base = [")
    code, line = refused(capsys, "show", str(tmp_path / "bad.toml"))
    assert code == 7
    assert "bad.toml: is no TOML" in line


def test_changes_leave_the_family_as_it_is(capsys: Capture) -> None:
    said(capsys, "size", "bert", "--set", KEYS)
    assert find("bert").architecture.encoder is not None
    assert find("bert").architecture.encoder.block.attention.kv_heads == 12  # type: ignore[union-attr]
