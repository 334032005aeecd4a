"""A spec file says what it changes in a known model and why; what comes out has kept every rule."""

from __future__ import annotations

from pathlib import Path

import pytest

import variorum as vr
from variorum.errors import DamagedFile, NotFound, UsageError, VariorumError
from variorum.family import find
from variorum.family.reference import architecture
from variorum.spec.positions import Rotary

ROPE = """
base = "bert-base-uncased"
name = "bert-rope"

[[change]]
path = "encoder.positions"
value = {kind = "Rotary", theta = 500000}
why = "rotation needs no table"
relieves = "length-extrapolation"
also = {"encoder.input.positions" = "none"}

[[change]]
path = "architecture.encoder.block.attention.kv_heads"
value = 4
axis = "compression"
"""


def written(place: Path, text: str, name: str = "mine.toml") -> Path:
    path = place / name
    path.write_text(text)
    return path


def test_a_file_is_a_model_with_reasons(tmp_path: Path) -> None:
    model = architecture(written(tmp_path, ROPE))
    assert model.name == "bert-rope"
    assert model.cite == "mine.toml, from bert-base-uncased"
    assert model.ancestor == find("bert-base-uncased")
    assert model.architecture.encoder is not None
    assert model.architecture.encoder.positions == Rotary(theta=500_000.0)
    assert model.architecture.encoder.input.positions is None
    assert model.architecture.encoder.block.attention.kv_heads == 4
    rows = {row.path: row for row in find("bert-base-uncased").diff(model)}
    assert len(rows) == 3
    for path in ("architecture.encoder.positions", "architecture.encoder.input.positions"):
        row = rows[path]
        assert (row.axis, row.why, row.relieves, row.by) == (
            "positions", "rotation needs no table", "length-extrapolation", "bert-rope",
        )  # fmt: skip
    assert rows["architecture.encoder.block.attention.kv_heads"].axis == "compression"


def test_a_file_may_start_from_another_beside_it(tmp_path: Path) -> None:
    written(tmp_path, ROPE, "one.toml")
    two = written(tmp_path, 'base = "one.toml"\n[[change]]\npath = "encoder.depth"\nvalue = 3\n', "two.toml")
    model = architecture(two)
    assert [ancestor.name for ancestor in model.lineage] == ["transformer", "bert-base-uncased", "bert-rope", "two"]
    assert model.architecture.encoder is not None
    assert model.architecture.encoder.depth == 3


def test_a_file_without_changes_is_its_base_by_another_name(tmp_path: Path) -> None:
    model = architecture(written(tmp_path, 'base = "gpt2"\nname = "same"\ncite = "ours"\n'))
    assert (model.name, model.cite, model.architecture) == ("same", "ours", find("gpt2").architecture)


def test_python_takes_a_name_a_file_or_a_spec(tmp_path: Path) -> None:
    path = written(tmp_path, ROPE)
    spec = vr.architecture("bert-base-uncased")
    assert vr.architecture(spec) is spec
    assert vr.diff("bert-base-uncased", str(path)) == spec.diff(vr.architecture(path))
    assert vr.size(path, head=None).parameters == vr.size(vr.architecture(path), head=None).parameters


def test_settings_come_in_order_and_later_ones_may_lie_inside_earlier() -> None:
    model = architecture("bert", set=["encoder.positions=Rotary()", "encoder.positions.theta=1e6"])
    assert model.architecture.encoder is not None
    assert model.architecture.encoder.positions == Rotary(theta=1e6)
    paths = ["architecture.encoder.positions", "architecture.encoder.positions.theta"]
    assert [change.path for change in model.changes] == paths


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("base = ", DamagedFile, "is no TOML"),
        ("", UsageError, "does not say what it starts from"),
        ('base = "berd"', NotFound, "did you mean bert"),
        ('base = "gpt-4"', NotFound, "not disclosed"),
        ('base = "mine.toml"', UsageError, "is its own ancestor"),
        ('base = "other.toml"', NotFound, "no such spec file"),
        ('bass = "bert"', UsageError, "unknown key 'bass'; did you mean base"),
        ('base = "bert"\nchange = 3', UsageError, "head each with [[change]]"),
        ('base = "bert"\n[[change]]\nvalue = 3', UsageError, "a change needs a path and a value"),
        ('base = "bert"\n[[change]]\npath = "width"', UsageError, "a change needs a path and a value"),
        ('base = "bert"\n[[change]]\npath = "width"\nvalu = 3', UsageError, "unknown key 'valu'; did you mean value"),
        ('base = "bert"\n[[change]]\npath = "widt"\nvalue = 3', NotFound, "did you mean width"),
        ('base = "bert"\n[[change]]\npath = "width"\nvalue = "wide"', UsageError, "is not a whole number"),
        ('base = "bert"\n[[change]]\npath = "width"\nvalue = 2024-01-01', UsageError, "is not a whole number"),
        ('base = "bert"\n[[change]]\npath = "encoder.depth"\nvalue = 3\naxis = "postions"', UsageError, "positions"),
        ('base = "bert"\n[[change]]\npath = "encoder.depth"\nvalue = 3\nrelieves = "kv"', UsageError, "kv-memory"),
        ('base = "bert"\n[[change]]\npath = "encoder.depth"\nvalue = 3\nalso = 3', UsageError, "also is not a table"),
        ('base = "bert"\n[[change]]\npath = "encoder.block.attention.kv_heads"\nvalue = 5', UsageError,
         "5 key heads do not divide 12 query heads: each key head serves the same number of query heads"),
        ('base = "bert"\n[[change]]\npath = "encoder.mask"\nvalue = "causal"', UsageError, "has to see the tokens on"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_named(text: str, kind: type[VariorumError], said: str, tmp_path: Path) -> None:
    with pytest.raises(kind) as refused:
        architecture(written(tmp_path, text))
    assert said in str(refused.value)


def test_a_file_that_is_not_there_or_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such spec file"):
        architecture(tmp_path / "none.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(NotFound, match="is a directory"):
        architecture(tmp_path / "folder.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DamagedFile, match="is no TOML"):
        architecture(tmp_path / "bytes.toml")
