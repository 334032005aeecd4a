"""Matrices on disk as int8, in the published layout; read back as the numbers that the codes stand for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.tiny_specs import gap, lm_head, made, words
from variorum.checkpoint import load, save
from variorum.errors import DamagedFile, UsageError
from variorum.inference.prepared import prepare
from variorum.model import Model

#: Split and fused matrices, permuted rows, gates, an encoder, an encoder-decoder.
NAMES = ("llama-3", "gemma-3", "falcon", "gpt-neox", "bloom", "bert", "modernbert", "t5")


def single(name: str) -> Model:
    head = lm_head(name) if name not in ("bert", "modernbert") else "masked_lm"
    return made(name, head).float().eval()


def stored(directory: Path) -> dict[str, Tensor]:
    return load_file(directory / "model.safetensors")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_are_the_numbers_that_the_codes_stand_for(name, tmp_path):
    model = single(name)
    save(model, tmp_path / "int8", weights="int8")
    back, disk = load(tmp_path / "int8"), stored(tmp_path / "int8")
    codes = {key for key, tensor in disk.items() if tensor.dtype == torch.int8}
    assert codes and all(disk[f"{key}_scale"].shape == (len(disk[key]), 1) for key in codes)
    assert back.origin.verified
    for (key, ours), (_, plain) in zip(back.named_tensors(), model.named_tensors(), strict=True):
        step = plain.abs().amax(-1, keepdim=True) / 127 if plain.dim() == 2 else 0 * plain
        assert bool(((ours - plain).abs() <= step * 0.501).all()), key


@pytest.mark.parametrize("name", NAMES)
def test_codes_survive_being_read_and_written_again(name, tmp_path):
    save(single(name), tmp_path / "one", weights="int8")
    save(load(tmp_path / "one"), tmp_path / "two", weights="int8")
    one, two = stored(tmp_path / "one"), stored(tmp_path / "two")
    assert one.keys() == two.keys()
    for key, tensor in one.items():
        if key.endswith("_scale"):
            assert gap(tensor, two[key]) <= 1e-6 * float(tensor.max())
        else:
            assert torch.equal(tensor, two[key]), key
    save(load(tmp_path / "one"), tmp_path / "plain")
    assert "quantization_config" not in json.loads((tmp_path / "plain" / "config.json").read_text())
    assert all(tensor.is_floating_point() for tensor in stored(tmp_path / "plain").values())


def test_a_prepared_model_multiplies_by_the_codes_that_were_saved(tmp_path):
    model = single("llama-3")
    save(model, tmp_path / "int8", weights="int8")
    disk = stored(tmp_path / "int8")
    prepared = prepare(load(tmp_path / "int8"), "int8")
    for ours, theirs in (("attention.query", "self_attn.q_proj"), ("feedforward.down", "mlp.down_proj")):
        held = prepared.get_submodule(f"decoder.layers.0.{ours}")
        assert torch.equal(held.weight, disk[f"model.layers.0.{theirs}.weight"])


def test_the_config_says_what_the_published_library_understands(tmp_path):
    save(single("llama-3"), tmp_path / "int8", weights="int8")
    said = json.loads((tmp_path / "int8" / "config.json").read_text())["quantization_config"]
    assert (said["quant_method"], said["format"]) == ("compressed-tensors", "int-quantized")
    assert said["ignore"] == ["lm_head", "model.embed_tokens"]
    (group,) = said["config_groups"].values()
    assert group["targets"] == ["Linear"] and group["input_activations"] is None
    assert {key: group["weights"][key] for key in ("num_bits", "type", "strategy", "symmetric")} == {
        "num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True,
    }  # fmt: skip


def test_a_file_of_int8_is_a_quarter_of_its_matrices(tmp_path):
    model = single("llama-3")
    save(model, tmp_path / "plain")
    save(model, tmp_path / "int8", weights="int8")
    plain, int8 = stored(tmp_path / "plain"), stored(tmp_path / "int8")
    assert {key: tensor.shape for key, tensor in plain.items()} == {
        key: tensor.shape for key, tensor in int8.items() if not key.endswith("_scale")
    }
    with safe_open(tmp_path / "int8" / "model.safetensors", "pt") as opened:
        kept = [key for key in opened.keys() if opened.get_tensor(key).dtype == torch.float32]  # noqa: SIM118
    assert all(key.endswith(("_scale", "norm.weight")) or key in ("lm_head.weight", "model.embed_tokens.weight")
               for key in kept)  # fmt: skip


def test_a_layout_that_stores_matrices_the_other_way_round_is_refused(tmp_path):
    with pytest.raises(UsageError, match="input by output"):
        save(made("gpt2", "causal_lm").float(), tmp_path / "int8", weights="int8")
    assert not (tmp_path / "int8").exists()


def test_a_model_that_holds_codes_is_not_saved_in_their_place(tmp_path):
    with pytest.raises(UsageError, match="made of"):
        save(prepare(single("llama-3"), "int8"), tmp_path / "int8")


@pytest.mark.parametrize(
    "said",
    [
        {"quant_method": "gptq", "bits": 4},
        {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {}},
        {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g": {"weights": None}}},
        7,
    ],
    ids=str,
)
def test_weights_quantised_in_another_way_are_refused_by_name(said, tmp_path):
    save(single("llama-3"), tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text()) | {"quantization_config": said}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    (tmp_path / "model" / "variorum-manifest.json").unlink(missing_ok=True)
    for manifest in (tmp_path / "model").glob("*manifest*"):
        manifest.unlink()
    with pytest.raises(DamagedFile, match="quantised"):
        load(tmp_path / "model")


@pytest.mark.parametrize("damage", ["missing", "misshapen", "infinite", "negative"])
def test_a_damaged_scale_is_found(damage, tmp_path):
    save(single("llama-3"), tmp_path / "model", weights="int8")
    disk = stored(tmp_path / "model")
    name = "model.layers.0.mlp.down_proj.weight_scale"
    scale = disk.pop(name)
    if damage != "missing":
        made_of = {"misshapen": scale[1:], "infinite": scale / 0, "negative": -scale}
        disk[name] = made_of[damage].contiguous()
    save_file(disk, tmp_path / "model" / "model.safetensors")
    for manifest in (tmp_path / "model").glob("*manifest*"):
        manifest.unlink()
    with pytest.raises(DamagedFile, match=r"scale|finite"):
        load(tmp_path / "model")


def test_the_published_file_scores_as_the_numbers_it_stands_for(tmp_path):
    model = single("llama-3")
    save(model, tmp_path / "int8", weights="int8")
    back, ids = load(tmp_path / "int8"), words(2, 9)
    with torch.no_grad():
        assert gap(prepare(back, "int8")(ids).logits, back(ids).logits) <= 0.05 * float(back(ids).logits.std())
