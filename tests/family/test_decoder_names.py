"""Decoders in the spellings that published files of one family differ in: all are read, and mean the same."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import variorum
from tests.parity import oracle, ours
from tests.parity.case import materialise
from tests.parity.compare import differing, stored
from tests.parity.models.gemma import GEMMA3
from tests.parity.tiny import named
from variorum.checkpoint.config import read_config, write_config
from variorum.errors import DamagedFile
from variorum.family.names import dialects
from variorum.spec.positions import (
    DynamicNtkScaling,
    LinearScaling,
    Llama3Scaling,
    NtkScaling,
    YarnScaling,
)

IDS = torch.randint(3, 97, (2, 17), generator=torch.Generator().manual_seed(0))
POSITIONS = "architecture.decoder.positions"


def published(name: str, directory, **changes: object):
    """A tiny oracle on disk, with its config changed."""
    case = named(name)
    materialise(case, directory)
    file = directory / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({key: value for key, value in (config | changes).items() if value != "absent"}))
    return case, directory


def fuse(directory) -> None:
    """Rewrite the experts of a published directory as newer code may: all of a layer in one tensor."""
    tensors = load_file(directory / "model.safetensors")
    found: dict[str, torch.Tensor] = {}
    by_layer: dict[str, dict[tuple[str, int], torch.Tensor]] = {}
    part = {"w1": "gate", "w3": "up", "w2": "down", "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}
    for name, value in tensors.items():
        layer, marker, rest = name.replace(".block_sparse_moe.", ".mlp.").partition(".mlp.experts.")
        if marker:
            number, which, _ = rest.split(".")
            by_layer.setdefault(layer, {})[part[which], int(number)] = value
        else:
            found[name.replace(".block_sparse_moe.", ".mlp.")] = value
    for layer, experts in by_layer.items():
        count = 1 + max(number for _, number in experts)
        stacks = {which: torch.stack([experts[which, j] for j in range(count)]) for which in ("gate", "up", "down")}
        found[f"{layer}.mlp.experts.gate_up_proj"] = torch.cat((stacks["gate"], stacks["up"]), 1)
        found[f"{layer}.mlp.experts.down_proj"] = stacks["down"]
    save_file(found, directory / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.mechanism("F3")
@pytest.mark.parametrize(
    "name", ["mixtral/causal_lm", "qwen2-moe/causal_lm", "qwen3-moe/causal_lm", "deepseek-v3/causal_lm"]
)
def test_experts_in_one_tensor_a_layer_are_the_same_experts_and_are_written_so_again(name, tmp_path):
    case, apart = published(name, tmp_path / "apart")
    _, together = published(name, tmp_path / "together")
    fuse(together)
    one, other = (ours.load(directory, case.head) for directory in (apart, together))
    assert torch.equal(one(IDS).logits, other(IDS).logits)
    ours.load(together, case.head, dtype="float32").save(tmp_path / "saved")
    assert differing(stored(tmp_path / "saved"), stored(together)) == []
    with torch.no_grad():  # the published code reads that layout too
        right = oracle.load64(together, case.oracle)(IDS).logits
        assert torch.equal(right, oracle.load64(apart, case.oracle)(IDS).logits)


def test_the_text_half_of_a_model_of_images_is_read_and_saved_as_the_text_model(tmp_path):
    import transformers

    text = {**GEMMA3, "vocab_size": 97}
    vision = {"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 1, "num_attention_heads": 2,
              "image_size": 28, "patch_size": 14}  # fmt: skip
    config = transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    both = transformers.Gemma3ForConditionalGeneration(config).eval()
    oracle.randomise(both, 0)
    oracle.save(both, tmp_path / "both")
    model = variorum.load(tmp_path / "both", dtype="float64")
    assert model.head_names == ("causal_lm",)
    assert set(model.origin.unused.values()) == {"images are not read"}
    with torch.no_grad(), oracle.exact():
        right = oracle.load64(tmp_path / "both", "Gemma3ForConditionalGeneration")(IDS).logits
    assert torch.allclose(model(IDS).logits, right, atol=1e-10)
    variorum.load(tmp_path / "both").save(tmp_path / "text")
    assert json.loads((tmp_path / "text" / "config.json").read_text())["model_type"] == "gemma3_text"
    with torch.no_grad(), oracle.exact():
        again = oracle.load64(tmp_path / "text", "Gemma3ForCausalLM")(IDS).logits
    assert torch.allclose(again, right, atol=1e-10)


def test_a_nested_config_leaves_out_the_class_defaults():
    inner = {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "intermediate_size": 10_240,
             "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}  # fmt: skip
    model, _ = read_config({"model_type": "gemma3", "text_config": inner})
    decoder = model.architecture.decoder
    assert (decoder.block.attention.heads, decoder.block.attention.kv_heads, decoder.input.vocab) == (8, 4, 262_208)
    # 3.88 billion parameters without the vision tower, as the report says (table 1: 3,209M and 675M).
    assert model.size(context=1).parameters == pytest.approx(3.884e9, rel=2e-3)
    assert decoder.layer(5).positions.scaling == LinearScaling(factor=8.0)
    assert decoder.layer(4).positions.scaling is None and decoder.layer(4).attention.window == 1024


SCALINGS = [
    LinearScaling(factor=3.0),
    DynamicNtkScaling(factor=2.0, original_length=20),
    Llama3Scaling(factor=4.0, low_freq_factor=1.5, high_freq_factor=3.0, original_length=16),
    YarnScaling(factor=4.0, original_length=16, beta_fast=3.0, beta_slow=0.6, attention_factor=1.3, truncate=False),
    YarnScaling(factor=4.0, original_length=16),
]


@pytest.mark.mechanism("P7")
@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "mixtral"])
def test_every_scaling_is_written_so_that_it_is_read_back(kind, scaling):
    dialect = dialects()[kind]
    model = dialect.base.set({f"{POSITIONS}.scaling": scaling})
    assert read_config(write_config(model, dialect, {}, ()))[0].architecture == model.architecture


@pytest.mark.mechanism("P7")
def test_ntk_scaling_is_written_as_the_base_that_it_means(tmp_path):
    case, directory = published("llama/causal_lm", tmp_path / "plain")
    model = ours.load(directory, case.head, dtype="float32")
    scaled = dataclasses.replace(model.spec.architecture.decoder.positions, scaling=NtkScaling(factor=4.0))
    longer = variorum.build(model.spec.set({POSITIONS: scaled}), head=case.head)
    longer.save(tmp_path / "longer")
    found = variorum.load(tmp_path / "longer").spec.architecture.decoder.positions
    assert found.scaling is None and found.theta == pytest.approx(10_000 * 4 ** (8 / 6))
    with torch.no_grad():
        right = oracle.load32(tmp_path / "longer", case.oracle)(IDS).logits
        assert torch.allclose(longer(IDS).logits, right, atol=1e-4)


@pytest.mark.mechanism("P7")
def test_older_files_say_type_and_keep_the_base_apart():
    old = {"model_type": "llama", "rope_theta": 5e5, "rope_scaling": {"type": "dynamic", "factor": 2.0},
           "max_position_embeddings": 4096}  # fmt: skip
    positions = read_config(old)[0].architecture.decoder.positions
    assert positions.theta == 5e5
    assert positions.scaling == DynamicNtkScaling(factor=2.0, original_length=4096)
    with pytest.raises(DamagedFile, match="longrope"):
        read_config(old | {"rope_scaling": {"type": "longrope", "factor": 2.0}})


def test_a_window_that_is_stated_and_not_in_use_is_none():
    stated = {"model_type": "qwen2", "sliding_window": 131_072, "use_sliding_window": False, "max_window_layers": 2}
    decoder = read_config(stated)[0].architecture.decoder
    assert {decoder.layer(i).attention.window for i in range(decoder.depth)} == {None}
    decoder = read_config(stated | {"use_sliding_window": True})[0].architecture.decoder
    assert [decoder.layer(i).attention.window for i in range(4)] == [None, None, 131_072, 131_072]


def test_a_router_that_does_not_say_whether_it_renormalises_does_not():
    for kind in ("qwen2_moe", "qwen3_moe"):
        router = read_config({"model_type": kind})[0].architecture.decoder.block.feedforward.router
        assert router.normalise is False
        router = read_config({"model_type": kind, "norm_topk_prob": True})[0].architecture.decoder.block.feedforward
        assert router.router.normalise is True
