"""GPT-NeoX, Falcon, BLOOM and MPT as their files name them: fused matrices, flags, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests import gates
from tests.parity.oracle import exact, load64
from tests.tiny_specs import shaken, tiny, words
from variorum.builder import build
from variorum.checkpoint import manifest
from variorum.checkpoint.config import read_config
from variorum.checkpoint.load import load
from variorum.checkpoint.save import disk_tensors, save
from variorum.checkpoint.weights import Step
from variorum.errors import DamagedFile
from variorum.face import Model
from variorum.family import find
from variorum.spec.architecture import parallel, pre
from variorum.spec.dialect import fused
from variorum.spec.norms import LayerNorm
from variorum.spec.positions import Alibi, Rotary

NORM = LayerNorm(eps=1e-5)


def labelled(heads: int, kv_heads: int, dim: int = 2) -> Step:
    """The step of one fused matrix, [rows, 1], in the grouped layout."""
    rule = fused("qkv", "q", "k", "v", layout="g (r+2) d")
    shapes = ((heads * dim, 1), (kv_heads * dim, 1), (kv_heads * dim, 1))
    return Step(rule, ("qkv",), ("q", "k", "v"), shapes, heads)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "order"),
    [
        (3, 3, "q0 k0 v0 q1 k1 v1 q2 k2 v2"),  # (h s d): GPT-NeoX, BLOOM, Falcon-rw
        (3, 1, "q0 q1 q2 k0 v0"),  # ((h+1+1) d): Falcon-7B
        (6, 2, "q0 q1 q2 k0 v0 q3 q4 q5 k1 v1"),  # (g (r+2) d): Falcon-40B
    ],
)
def test_one_fused_layout_covers_four_families(heads, kv_heads, order):
    names = [f"{kind}{n}" for kind, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)) for n in range(count)]
    number = {name: 10.0 * i for i, name in enumerate(names)}

    def rows(heads: list[str]) -> torch.Tensor:
        return torch.tensor([[number[head] + channel] for head in heads for channel in range(2)])

    step, whole = labelled(heads, kv_heads), rows(order.split())
    parts = step.read([whole])
    for part, kind in zip(parts, "qkv", strict=True):
        assert torch.equal(part, rows([name for name in names if name[0] == kind]))
    assert torch.equal(step.write(parts)[0], whole)
    assert step.disk_shapes() == [tuple(whole.shape)]


def test_a_fused_bias_is_split_like_its_matrix():
    step = labelled(6, 2)
    bias = Step(step.rule, step.disk, step.ours, tuple((rows,) for rows, _ in step.shapes), 6)
    whole = torch.arange(20.0)
    assert [part.flatten().tolist() for part in bias.read([whole])] == [
        part.flatten().tolist() for part in step.read([whole[:, None]])
    ]
    assert torch.equal(bias.write(bias.read([whole]))[0], whole)


ORACLES = {
    "gpt-neox": "GPTNeoX", "pythia": "GPTNeoX", "falcon": "Falcon", "falcon-grouped": "Falcon", "falcon-rw": "Falcon",
    "bloom": "Bloom", "mpt": "Mpt",
}  # fmt: skip


def published(name: str) -> Model:
    """A shaken tiny model as its published classes can hold it: they fix a feed-forward of four widths in two."""
    wide = {"architecture.decoder.block.feedforward.width": 128} if name in ("bloom", "mpt") else None
    model = shaken(build(tiny(name, wide), head="causal_lm", kind=Model))
    model.backend = "eager"
    return model


@pytest.mark.parametrize("name", ORACLES)
def test_a_fresh_model_is_saved_as_others_read_it(name, tmp_path):
    model = published(name)
    save(model, tmp_path / "saved")
    again, _ = read_config(transformers.AutoConfig.from_pretrained(tmp_path / "saved").to_dict())
    assert again.architecture.decoder.block == model.spec.architecture.decoder.block
    backend = "sdpa" if name == "falcon-rw" else "eager"
    oracle = load64(tmp_path / "saved", f"{ORACLES[name]}ForCausalLM", backend)
    ids = words(2, 9)
    with torch.no_grad():
        with exact():
            right = oracle(ids).logits
        ours = model(ids).logits
    assert float((ours - right).abs().max()) <= gates.SCORES * float(right.std())


@pytest.mark.parametrize(
    ("config", "layout", "kv_heads", "positions"),
    [
        ({}, parallel(NORM, shared=True), 1, Rotary()),
        ({"multi_query": False}, parallel(NORM, shared=True), 8, Rotary()),
        ({"new_decoder_architecture": True, "num_kv_heads": 2}, parallel(NORM), 2, Rotary()),
        ({"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
         parallel(NORM, shared=True), 2, Rotary()),
        ({"parallel_attn": False, "multi_query": False, "alibi": True}, pre(NORM), 8, Alibi(scaled=True)),
        ({"parallel_attn": False}, pre(NORM), 1, Rotary()),
    ],
)  # fmt: skip
def test_falcons_flags_mean_one_of_its_layouts_and_are_written_back(config, layout, kv_heads, positions):
    whole = {"model_type": "falcon", "hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 2, **config}
    spec, dialect = read_config(whole)
    decoder = spec.architecture.decoder
    assert (decoder.block.layout, decoder.block.attention.kv_heads, decoder.positions) == (layout, kv_heads, positions)
    written = {**whole, **dialect.write(spec)}
    assert read_config(written)[0].architecture == spec.architecture
    assert read_config(written)[1].rules == dialect.rules


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"model_type": "falcon", "new_decoder_architecture": True, "parallel_attn": False}, "without parallel_attn"),
        ({"model_type": "falcon", "num_ln_in_parallel_attn": 2}, "a block that has one norm"),
        ({"model_type": "falcon", "apply_residual_connection_post_layernorm": True}, "only False is implemented"),
        ({"model_type": "mpt", "attn_config": {"alibi": False}}, "attn_config.alibi is False"),
        ({"model_type": "mpt", "attn_config": {"qk_ln": True}}, "attn_config.qk_ln is True"),
        ({"model_type": "mpt", "no_bias": False}, "no_bias is False"),
        ({"model_type": "gpt_neox", "hidden_size": 30, "num_attention_heads": 4}, "do not divide"),
        ({"model_type": "bloom", "hidden_size": 30, "n_head": 4}, "do not divide"),
    ],
)
def test_what_nobody_implements_is_refused_and_named(config: dict[str, Any], what: str) -> None:
    with pytest.raises(DamagedFile, match=what):
        read_config(config)


def test_the_first_spelling_of_rotation_is_read():
    released = {"model_type": "gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 20_000}
    assert read_config(released)[0].architecture.decoder.positions == Rotary(theta=20_000.0, fraction=0.5)
    assert read_config({"model_type": "gpt_neox"})[0].architecture.decoder.positions == Rotary(fraction=0.25)


def test_mpts_nested_configuration_is_read():
    nested = {"clip_qkv": 6, "softmax_scale": 0.25, "alibi_bias_max": 16, "attn_pdrop": 0.1}
    decoder = read_config({"model_type": "mpt", "attn_config": nested})[0].architecture.decoder
    attention = decoder.block.attention
    assert (attention.clip, attention.scale, attention.dropout, decoder.block.dropout) == (6, 0.25, 0.1, 0.1)
    assert decoder.positions == Alibi(max_bias=16.0) == find("mpt-7b-storywriter").architecture.decoder.positions


def test_blooms_files_have_names_without_a_prefix_and_are_read_so(tmp_path: Path):
    """The released BLOOM files hold the backbone as it is, and no output matrix."""
    model = published("bloom")
    save(model, tmp_path / "saved")
    file = tmp_path / "saved" / "model.safetensors"
    bare = {name.removeprefix("transformer."): tensor for name, tensor in load_file(file).items()}
    assert "word_embeddings_layernorm.weight" in bare and not any("lm_head" in name for name in bare)
    save_file(bare, file, metadata={"format": "pt"})
    (tmp_path / "saved" / manifest.NAME).unlink()
    again = load(tmp_path / "saved", dtype="float64", backend="eager")
    with torch.no_grad():
        assert torch.equal(again(words(1, 5)).logits, model(words(1, 5)).logits)
    assert disk_tensors(again, dict(again.named_tensors())).keys() == bare.keys()
