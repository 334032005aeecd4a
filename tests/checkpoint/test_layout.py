"""A model is written as its family publishes it where that says all it is, and otherwise so that nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import variorum as vr
from tests.spec.shrunk import ALL
from variorum.builder import build
from variorum.checkpoint import load, save
from variorum.checkpoint.layout import layout_of
from variorum.errors import DamagedFile
from variorum.family import find, models

OWN = "variorum"
#: Nobody published weights of these, or in no layout that could say what they are.
UNPUBLISHED = {"transformer", "gpt-3", "palm", "bilm"}


@pytest.mark.parametrize("name", [*models()])
def test_a_published_model_keeps_its_familys_layout(name: str) -> None:
    model = find(name)
    for size in (name, *list(model.sizes)[:1]):
        types = {layout_of(find(size), [head]).model_type for head in model.architecture.heads}
        assert (types == {OWN}) == (name in UNPUBLISHED), types


@pytest.mark.parametrize(
    ("base", "change"),
    [
        ("gpt2", "decoder.block.attention.kv_heads=4"),
        ("gpt2", "decoder.pattern=At(layers='1::2', set={'attention.window': 128})"),
        ("bert", "encoder.positions=Rotary"),
        ("bert", "encoder.block.layout.norm.bias=no"),
        ("albert", "encoder.sharing.parts=attention"),
        ("llama", "decoder.block.attention.softcap=30"),
        ("t5", "encoder.block.attention.window=8"),
        ("modernbert", "encoder.pattern=At(layers='::4', set={'attention.window': none})"),
    ],
)
def test_a_change_that_the_layout_cannot_say_is_not_lost(base: str, change: str) -> None:
    heads = list(models()[base].architecture.heads)[:1]
    assert layout_of(find(base), heads).model_type != OWN
    assert layout_of(vr.architecture(base, set=[change]), heads).model_type == OWN


def test_ntk_scaling_is_published_as_the_base_that_it_is() -> None:
    model = vr.architecture("llama", set=["decoder.positions=Rotary(scaling=NtkScaling(factor=4))"])
    assert layout_of(model, ["causal_lm"]).model_type == "llama"


@pytest.mark.parametrize("change", ["encoder.depth=3", "encoder.block.dropout=0.3", "encoder.input.vocab=40000"])
def test_a_change_that_it_can_say_is_published(change: str) -> None:
    assert layout_of(vr.architecture("bert", set=[change]), ["masked_lm"]).model_type == "bert"


@pytest.fixture
def banded(tmp_path: Path) -> Path:
    """A small GPT-3, whose second layer sees a band."""
    model = build(ALL["gpt-3"], head=["causal_lm", "sequence_classification"])
    save(model, tmp_path / "banded")
    again = load(tmp_path / "banded")
    assert again.spec.architecture == model.spec.architecture
    ids = torch.tensor([[6, 7, 8, 9]])
    assert torch.equal(model(ids).logits, again(ids).logits)
    return tmp_path / "banded"


def changed(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = directory / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))
    (directory / "variorum-manifest.json").unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda config: config.pop("spec"), "spec does not hold architecture"),
        (lambda config: config["spec"].update(architecture=3), "describes no model (spec.architecture: 3 is not"),
        (lambda config: config["spec"]["architecture"].update(width="wide"), "'wide' is not a whole number"),
        (lambda config: config["spec"]["architecture"].update(widht=3), "did you mean width"),
        (lambda config: config["spec"]["architecture"]["decoder"].update(depth=10**9), "a depth of 1,000,000,000"),
        (lambda config: config["spec"]["architecture"]["decoder"].update(depth=3), "layer"),
        (lambda config: config["spec"]["architecture"]["decoder"].update(mask="bidirectional"), "only copy it"),
        (lambda config: config["spec"]["architecture"]["heads"].update(causal_lm={"kind": "Head"}), "TokenHead"),
    ],
)  # fmt: skip
def test_a_damaged_config_of_a_mix_is_named(
    change: Callable[[dict[str, Any]], object], said: str, banded: Path
) -> None:
    changed(banded, change)
    with pytest.raises(DamagedFile) as refused:
        load(banded)
    assert said in str(refused.value)
    assert "banded" in str(refused.value)
