"""A recording holds every module's output under its own name, in the order of the calls."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors import safe_open

from tests.parity.case import materialise
from tests.parity.tiny import named
from tests.tools.record import main


@pytest.fixture(scope="module")
def albert(tmp_path_factory):
    return materialise(named("albert/masked_lm"), tmp_path_factory.mktemp("albert"))


def test_shared_layers_are_recorded_once_per_use(albert, tmp_path):
    out = tmp_path / "acts.safetensors"
    assert main([str(albert), "--ids", "5 6 7", "--out", str(out)]) == 0
    with safe_open(out, "pt") as file:
        order = json.loads(file.metadata()["order"])
        assert set(order) | {"input.input_ids"} == set(file.keys())
        assert file.get_tensor("input.input_ids").tolist() == [[5, 6, 7]]
        uses = [name for name in order if name.startswith("albert.encoder.albert_layer_groups.0.albert_layers.0.ffn#")]
        states = [file.get_tensor(name) for name in uses]
        assert len(uses) == 3, "four layers share one module: a first use and three more"
        assert not torch.equal(states[0], states[1])
        assert order.index("albert.embeddings") < order.index("albert.encoder") < order.index("predictions")
        assert torch.equal(file.get_tensor("predictions"), file.get_tensor("logits"))


def test_a_float64_recording_is_the_oracles(albert, tmp_path):
    files = {dtype: tmp_path / f"{dtype}.safetensors" for dtype in ("float32", "float64")}
    logits = {}
    for dtype, out in files.items():
        main([str(albert), "--ids", "5,6,7", "--out", str(out), "--dtype", dtype])
        with safe_open(out, "pt") as file:
            logits[dtype] = file.get_tensor("logits")
    assert logits["float64"].dtype == torch.float64
    gap = (logits["float32"].double() - logits["float64"]).abs().max()
    assert 0 < gap < 1e-4
