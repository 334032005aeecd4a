"""How models of long texts are published: a window for each layer, a memory, tables and projections by cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import variorum
from tests.tiny_specs import made, tiny, words
from variorum.checkpoint.config import read_config, write_config
from variorum.checkpoint.save import save
from variorum.checkpoint.weights import plan
from variorum.errors import DamagedFile, UsageError
from variorum.family import find
from variorum.family.names import dialect_for
from variorum.spec.architecture import At
from variorum.spec.attention import GlobalLocalAttention
from variorum.spec.heads import FirstToken
from variorum.spec.model import Model

E, D, H = "architecture.encoder", "architecture.decoder", "architecture.heads"
#: The keys of the released configuration that say anything about the model.
WT103 = {
    "model_type": "transfo-xl", "adaptive": True, "attn_type": 0, "clamp_len": 1000, "cutoffs": [20000, 40000, 200000],
    "d_embed": 1024, "d_head": 64, "d_inner": 4096, "d_model": 1024, "div_val": 4, "dropatt": 0.0, "dropout": 0.1,
    "init_std": 0.02, "layer_norm_epsilon": 1e-05, "mem_len": 1600, "n_head": 16, "n_layer": 18, "pre_lnorm": False,
    "proj_share_all_but_first": True, "same_length": True, "sample_softmax": -1, "untie_r": True, "vocab_size": 267735,
}  # fmt: skip


def read(base: str, **config: Any) -> Model:
    return read_config({"model_type": base, "vocab_size": 50_265, "pad_token_id": 1, **config})[0]


def windows(model: Model) -> list[int | None]:
    stack = model.architecture.main
    return [stack.layer(index).attention.window for index in range(stack.depth)]


@pytest.mark.mechanism("A10")
def test_one_window_or_one_a_layer_is_read_and_a_list_is_written() -> None:
    same = read("longformer", num_hidden_layers=3, attention_window=64)
    apart = read("longformer", num_hidden_layers=5, attention_window=[32, 64, 32, 128, 32])
    assert windows(same) == [64] * 3 and same.architecture.main.pattern == ()
    assert windows(apart) == [32, 64, 32, 128, 32]
    assert apart.architecture.main.pattern == (
        At(layers="1", set={"attention.window": 64}), At(layers="3", set={"attention.window": 128})
    )  # fmt: skip
    dialect = dialect_for(apart)
    assert dialect is not None
    assert write_config(apart, dialect, {}, ())["attention_window"] == [32, 64, 32, 128, 32]
    assert read_config(write_config(apart, dialect, {}, ()))[0] == apart


@pytest.mark.parametrize("window", [3, 0, -2, [64], [64, 64, 63], "64", {"a": 1}])
def test_a_window_that_is_none_is_refused(window: object) -> None:
    with pytest.raises(DamagedFile, match="attention_window"):
        read("longformer", num_hidden_layers=3, attention_window=window)


def test_the_separator_is_the_configs() -> None:
    heads = read("longformer", num_hidden_layers=1, attention_window=4, sep_token_id=7).architecture.heads
    assert [heads[name].global_tokens.separator for name in ("question_answering", "multiple_choice")] == [7, 7]  # type: ignore[union-attr]


@pytest.mark.mechanism("P8", "C1")
def test_the_released_configuration_is_the_released_size() -> None:
    model = read_config(WT103)[0]
    assert model.architecture == find("transfo-xl-wt103").architecture
    dialect = dialect_for(model)
    assert dialect is not None
    named = {
        name: shape
        for step in plan(dialect, model.architecture, ("causal_lm",), "transformer.")
        for name, shape in zip(step.disk, step.disk_shapes(), strict=True)
    }
    assert len(named) == 18 * 13 + 4 * 2 + 4 + 1 + 2
    assert named["transformer.word_emb.emb_layers.3.weight"] == (67_735, 16)
    assert named["transformer.word_emb.emb_projs.3"] == (1024, 16)
    assert named["transformer.layers.17.dec_attn.qkv_net.weight"] == (3072, 1024)
    assert named["transformer.layers.0.dec_attn.r_w_bias"] == (16, 64)
    assert named["transformer.layers.0.pos_ff.CoreNet.3.weight"] == (1024, 4096)
    assert named["crit.out_projs.0"] == (1024, 1024) and "crit.out_projs.1" not in named
    assert named["crit.out_layers.2.bias"] == (160_000,) and named["crit.cluster_weight"] == (3, 1024)


def test_as_many_keys_for_every_token_is_a_window_as_long_as_the_memory() -> None:
    assert windows(read_config(WT103)[0])[0] == 1600
    assert windows(read_config(WT103 | {"same_length": False})[0])[0] is None
    bare = read_config(WT103 | {"mem_len": 0})[0].architecture.main
    assert (bare.memory, bare.first_memory, bare.block.attention.window) == (0, "nothing", None)
    for wrong in ({"mem_len": 2**30}, {"same_length": "no"}):
        with pytest.raises(DamagedFile, match="no usable memory"):
            read_config(WT103 | wrong)


@pytest.mark.parametrize("values", [{f"{D}.block.attention.window": 9}, {f"{D}.first_memory": "nothing"}])
def test_what_the_published_layout_cannot_say_is_saved_in_one_of_our_own(
    values: dict[str, object], tmp_path: Path
) -> None:
    equal = {f"{D}.memory": 7, f"{D}.block.attention.window": 7}
    model = made(tiny("transformer-xl", equal | values), "causal_lm").float()
    save(model, tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["model_type"] == "variorum"
    again = variorum.load(tmp_path / "saved", head="causal_lm")
    assert again.spec.architecture == model.spec.architecture
    assert torch.equal(again(words(2, 12)).logits, model(words(2, 12)).logits)
    published = variorum.load(_published(tmp_path / "published"), head="causal_lm")
    published.spec = published.spec.set(values)
    with pytest.raises(UsageError, match="has no published layout"):
        save(published, tmp_path / "changed")


def _published(directory: Path) -> Path:
    save(made(tiny("transformer-xl", {f"{D}.memory": 7, f"{D}.block.attention.window": 7}), "causal_lm"), directory)
    return directory


@pytest.mark.mechanism("A10")
def test_a_mix_with_global_tokens_is_saved_and_read_again(tmp_path: Path) -> None:
    attention = GlobalLocalAttention(heads=4, kv_heads=2, head_dim=8, window=6)
    values = {f"{E}.block.attention": attention, f"{H}.sequence_classification.global_tokens": FirstToken()}
    model = made(tiny("modernbert", values), "sequence_classification").float()
    save(model, tmp_path / "saved")
    again = variorum.load(tmp_path / "saved", head="sequence_classification")
    assert torch.equal(again(words(2, 20)).logits, model(words(2, 20)).logits)


def test_copies_of_tied_tensors_are_read_written_again_and_must_agree(tmp_path: Path) -> None:
    _published(tmp_path / "plain")
    held = load_file(tmp_path / "plain" / "model.safetensors")
    for index in range(4):
        held[f"crit.out_layers.{index}.weight"] = held[f"transformer.word_emb.emb_layers.{index}.weight"].clone()
        held.setdefault(f"crit.out_projs.{index}", held[f"transformer.word_emb.emb_projs.{index}"].clone())
    held["transformer.pos_emb.inv_freq"] = 1 / 10_000 ** (torch.arange(0, 32, 2) / 32)
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "config.json").write_text((tmp_path / "plain" / "config.json").read_text())
    save_file(held, whole / "model.safetensors")
    again = variorum.load(whole, head="causal_lm")
    assert torch.equal(
        again(words(1, 5)).logits, variorum.load(tmp_path / "plain", head="causal_lm")(words(1, 5)).logits
    )
    again.save(tmp_path / "again")
    assert load_file(tmp_path / "again" / "model.safetensors").keys() == held.keys() - {"transformer.pos_emb.inv_freq"}
    held["crit.out_projs.2"][0, 0] += 1
    save_file(held, whole / "model.safetensors")
    with pytest.raises(DamagedFile, match=r"crit.out_projs.2 differs from decoder.input.table.projects.2.weight"):
        variorum.load(whole, head="causal_lm")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["tie_projs"] == [False, True, True, True]
