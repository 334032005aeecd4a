"""A GGUF file is the published model with its values as stored: same scores, same spec, and a directory when saved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers

import variorum
from tests.checkpoint import ggufs
from tests.gates import SCORES
from variorum.checkpoint.gguf_header import TYPES
from variorum.errors import DamagedFile, UsageError

ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500_000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}  # fmt: skip
GEMMA3 = {
    "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
    "sliding_attention": ROPE,
}
# name: published class, architecture in the file, config
WRITERS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "llama", {**ggufs.SHAPE, "rope_parameters": ROPE}),
    "llama, tied": ("LlamaForCausalLM", "llama",
                    {**ggufs.SHAPE, "rope_parameters": {**ROPE, "rope_theta": 5e4}, "tie_word_embeddings": True}),
    "llama-3.1": ("LlamaForCausalLM", "llama", {**ggufs.SHAPE, "num_attention_heads": 3, "num_key_value_heads": 1,
                                                "rope_parameters": LLAMA3}),
    "llama, stretched": ("LlamaForCausalLM", "llama",
                         {**ggufs.SHAPE, "rope_parameters": {**ROPE, "rope_type": "linear", "factor": 4.0}}),
    "qwen2": ("Qwen2ForCausalLM", "qwen2", {**ggufs.SHAPE, "rope_parameters": ROPE}),
    "qwen3": ("Qwen3ForCausalLM", "qwen3",
              {**ggufs.SHAPE, "rope_parameters": ROPE, "head_dim": 10, "rms_norm_eps": 1e-3}),
    "mixtral": ("MixtralForCausalLM", "llama",
                {**ggufs.SHAPE, "rope_parameters": ROPE, "num_local_experts": 4, "num_experts_per_tok": 2,
                 "router_aux_loss_coef": 0.02}),
    "mistral": ("MistralForCausalLM", "llama", {**ggufs.SHAPE, "rope_parameters": ROPE, "sliding_window": 5}),
    "gemma": ("GemmaForCausalLM", "gemma", {**ggufs.GEMMA, "rope_parameters": ROPE}),
    "gemma-2": ("Gemma2ForCausalLM", "gemma2",
                {**ggufs.GEMMA, "rope_parameters": ROPE, "query_pre_attn_scalar": 10, "sliding_window": 5,
                 "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0}),
    "gemma-3": ("Gemma3ForCausalLM", "gemma3",
                {**ggufs.GEMMA, "num_hidden_layers": 7, "rope_parameters": GEMMA3, "query_pre_attn_scalar": 10,
                 "sliding_window": 5, "rms_norm_eps": 1e-3}),
}  # fmt: skip
BERT = {"vocab_size": 97, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
        "max_position_embeddings": 32, "pad_token_id": 0}  # fmt: skip


def ids(count: int = 23) -> torch.Tensor:
    return torch.randint(3, 97, (2, count), generator=torch.Generator().manual_seed(5))


def published(tmp_path: Path, name: str) -> tuple[Path, Path, str]:
    """A tiny model as a directory by its own library, and as a GGUF file; and its class."""
    kind, arch, config = WRITERS[name]
    model = ggufs.oracle_model(kind, config)
    model.save_pretrained(tmp_path / "published")  # type: ignore[operator]
    return tmp_path / "published", ggufs.write(tmp_path / "model.gguf", model, arch, extra=ggufs.add_tokens), kind


@pytest.mark.parametrize("name", WRITERS)
def test_scores_are_those_of_the_published_class_with_the_same_values(tmp_path: Path, name: str) -> None:
    directory, file, kind = published(tmp_path, name)
    theirs = ggufs.exact_logits(directory, kind, ids())
    model = variorum.load(file, dtype="float64")
    with torch.no_grad():
        ours = model(ids()).logits
    assert float((ours - theirs).abs().max()) <= SCORES * float(theirs.std())
    assert set(model.origin.unused) <= {"rope_freqs.weight"} and model.origin.fresh == ()


@pytest.mark.parametrize("name", WRITERS)
def test_it_is_the_spec_of_the_published_directory_and_saves_as_one(tmp_path: Path, name: str) -> None:
    directory, file, kind = published(tmp_path, name)
    model = variorum.load(file)
    assert model.spec.architecture.decoder == _decoder_of(directory)
    model.save(tmp_path / "saved")
    again = variorum.load(tmp_path / "saved")
    assert again.origin.verified and again.spec.architecture.decoder == model.spec.architecture.decoder
    assert again.tokenizer.encode("abba").ids == model.tokenizer.encode("abba").ids
    theirs = ggufs.exact_logits(tmp_path / "saved", kind, ids())
    assert float((theirs - ggufs.exact_logits(directory, kind, ids())).abs().max()) <= SCORES * float(theirs.std())
    config = getattr(transformers, kind).config_class.from_pretrained(tmp_path / "saved")
    assert (config.max_position_embeddings, config.bos_token_id) == (128, 1)


def _decoder_of(directory: Path) -> Any:
    """The spec of the directory's decoder; a file does not say what dropout it was trained with."""
    return variorum.load(directory, tokenizer=False).spec.set({
        "architecture.decoder.block.attention.dropout": 0.0, "architecture.decoder.input.pad_id": None,
    }).architecture.decoder  # fmt: skip


@pytest.mark.parametrize("pooling", [1, 2, 3])
def test_a_sentence_encoder_keeps_its_pooling_and_its_hidden_states(tmp_path: Path, pooling: int) -> None:
    model = ggufs.oracle_model("BertModel", BERT)
    model.save_pretrained(tmp_path / "published")  # type: ignore[operator]

    def extra(writer: gguf.GGUFWriter) -> None:
        writer.add_pooling_type(gguf.PoolingType(pooling))
        _wordpiece(writer)

    skip = ("pooler.dense.weight", "pooler.dense.bias", "position_ids")
    file = ggufs.write(tmp_path / "model.gguf", model, "bert", extra=extra, skip=skip)
    theirs = ggufs.exact_logits(tmp_path / "published", "BertModel", ids())
    ours = variorum.load(file, dtype="float64")
    with torch.no_grad():
        states = ours(ids()).last_hidden_state
    assert float((states - theirs).abs().max()) <= SCORES * float(theirs.std())
    given = torch.tensor([ours.tokenizer.encode("ab ba").ids])
    assert given[0, 0] == 2 and given[0, -1] == 3
    with torch.no_grad():
        found = ours(given).last_hidden_state[0]
    expected = torch.nn.functional.normalize({1: found.mean(0), 2: found[0], 3: found[-1]}[pooling], dim=0)
    assert torch.allclose(ours.embed(["ab ba"])[0], expected, atol=1e-12)
    ours.save(tmp_path / "saved")
    again = variorum.load(tmp_path / "saved", dtype="float64")
    assert again.spec.architecture.pooler is None and again.origin.fresh == ()
    with torch.no_grad():
        assert torch.equal(again(given).last_hidden_state, ours(given).last_hidden_state)
    kept = ggufs.exact_logits(tmp_path / "saved", "BertModel", ids())
    assert float((kept - theirs).abs().max()) <= SCORES * float(theirs.std())


def _wordpiece(writer: gguf.GGUFWriter) -> None:
    """``a`` and ``##a`` …, marked as the converter marks them."""
    words = [f"▁{chr(97 + i)}" for i in range(26)] + [chr(97 + i) for i in range(26)]
    marked = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [*marked, *words, *(f"▁[unused{i}]" for i in range(97 - len(marked) - len(words)))]
    writer.add_tokenizer_model("bert")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * 5 + [gguf.TokenType.NORMAL] * 92)
    writer.add_unk_token_id(1)
    writer.add_sep_token_id(3)
    writer.add_pad_token_id(0)


EXACTLY_READ = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
                "IQ4_NL", "IQ4_XS")  # fmt: skip


@pytest.mark.parametrize("kind", EXACTLY_READ)
def test_every_type_is_read_as_the_library_dequantises_it(tmp_path: Path, kind: str) -> None:
    from variorum.checkpoint.source import open_tensors

    stored = ggufs.random_blocks(kind, 6, 512, seed=3)
    number = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(str(tmp_path / "one.gguf"), "llama")
    writer.add_tensor("before", np.ones(3, np.float32))
    writer.add_tensor("blocks", stored, raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open_tensors(tmp_path / "one.gguf") as tensors:
        assert tensors.shapes == {"before": (3,), "blocks": (6, 512)} and tensors.dtypes["blocks"] == kind
        found = tensors.get("blocks")
    assert torch.equal(found.float(), torch.from_numpy(gguf.dequantize(stored, number).copy()))


def test_every_block_has_the_size_that_the_library_gives_it() -> None:
    theirs = {int(kind): (kind.name, *gguf.GGML_QUANT_SIZES[kind]) for kind in gguf.GGML_QUANT_SIZES}
    assert {number: theirs[number] for number in TYPES} == TYPES


def test_rounded_weights_give_the_scores_of_those_weights(tmp_path: Path) -> None:
    kind, arch, config = WRITERS["llama"]
    model = ggufs.oracle_model(kind, {**config, "hidden_size": 96, "intermediate_size": 64})
    q8 = gguf.GGMLQuantizationType.Q8_0
    file = ggufs.write(tmp_path / "q8.gguf", model, arch, kind_of=lambda name: ggufs.F32 if "norm" in name else q8)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "norm" not in name:  # rows are only moved by the converter, so rounding first is the same
                value.copy_(torch.from_numpy(gguf.dequantize(gguf.quantize(value.numpy(), q8), q8)))
    model.save_pretrained(tmp_path / "rounded")  # type: ignore[operator]
    theirs = ggufs.exact_logits(tmp_path / "rounded", kind, ids())
    with torch.no_grad():
        ours = variorum.load(file, dtype="float64")(ids()).logits
    assert float((ours - theirs).abs().max()) <= SCORES * float(theirs.std())


def test_nothing_is_saved_as_gguf(tmp_path: Path) -> None:
    _, file, _ = published(tmp_path, "llama")
    with pytest.raises(UsageError, match="never written"):
        variorum.load(file).save(tmp_path / "other.gguf")
    assert not (tmp_path / "other.gguf").exists()


def test_divisors_of_frequencies_that_no_scaling_gives_are_refused(tmp_path: Path) -> None:
    kind, arch, config = WRITERS["llama"]
    model = ggufs.oracle_model(kind, config)

    def extra(writer: gguf.GGUFWriter) -> None:
        writer.add_tensor("rope_freqs.weight", np.array([1.0, 3.0, 1.0, 2.0], np.float32))

    with pytest.raises(DamagedFile, match="no known scaling"):
        variorum.load(ggufs.write(tmp_path / "odd.gguf", model, arch, extra=extra))


def test_a_tensor_that_the_spec_lacks_is_named(tmp_path: Path) -> None:
    kind, arch, config = WRITERS["llama"]
    model = ggufs.oracle_model(kind, config)

    def extra(writer: gguf.GGUFWriter) -> None:
        writer.add_tensor("blk.0.attn_q.bias", np.zeros(48, np.float32))

    with pytest.raises(DamagedFile, match=r"blk\.0\.attn_q\.bias"):
        variorum.load(ggufs.write(tmp_path / "odd.gguf", model, arch, extra=extra))
