"""Tiny GGUF files of published classes, written as llama.cpp's converter writes them, by the format's own library.

Names come from the library's table. What the converter does to values is done here in the way that it documents:
LLaMA's query and key rows are paired, Gemma's norms carry one more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from torch import Tensor, nn

from tests.parity import oracle

F32 = gguf.GGMLQuantizationType.F32
SHAPE = {
    "vocab_size": 97, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GEMMA = {**SHAPE, "num_attention_heads": 4, "head_dim": 10}


def llama3_factors(config: Any) -> Tensor:
    """What Llama 3.1 divides its rotary frequencies by, as llama.cpp's converter computes the tensor."""
    rope = config.rope_parameters
    dim = config.hidden_size // config.num_attention_heads
    freqs = 1.0 / (rope["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim))
    length, low, high = rope["original_max_position_embeddings"], rope["low_freq_factor"], rope["high_freq_factor"]
    found = []
    for wave in (2 * torch.pi / freqs).tolist():
        smooth = (length / wave - low) / (high - low)
        short, long = wave < length / high, wave > length / low
        found.append(1.0 if short else rope["factor"] if long else 1 / ((1 - smooth) / rope["factor"] + smooth))
    return torch.tensor(found)


def paired(rows: Tensor, heads: int) -> Tensor:
    """Rows of a projection with the halves of each head as neighbours."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def oracle_model(kind: str, config: Mapping[str, Any], seed: int = 0, **more: Any) -> nn.Module:
    """A published class with every parameter random."""
    made = getattr(transformers, kind)
    settings = made.config_class(**config, **more)
    model = made(settings).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            noise = torch.randn(value.shape, generator=generator)
            shift = 0.0 if "Gemma" in kind or "norm" not in name.lower() else 1.0
            value.copy_(noise * (0.3 if value.dim() < 2 else 0.7) + shift)
            if "Gemma" in kind and "norm" in name:  # what survives being stored as 1 + w
                value.copy_((value + 1) - 1)
    return model  # type: ignore[no-any-return]


def write(
    path: Path, model: Any, arch: str, *, extra: Callable[[gguf.GGUFWriter], None] = lambda writer: None,
    kind_of: Callable[[str], gguf.GGMLQuantizationType] = lambda name: F32, skip: tuple[str, ...] = (),
) -> Path:  # fmt: skip
    """Write ``model`` as a file of the architecture ``arch``; ``kind_of`` says in which type each tensor is stored."""
    config = model.config
    writer = gguf.GGUFWriter(str(path), arch)
    _describe(writer, config, arch)
    extra(writer)
    number = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    tied = getattr(config, "tie_word_embeddings", False)
    for name, value in model.state_dict().items():
        if (tied and name == "lm_head.weight") or name.endswith(skip or ("\0",)):
            continue
        for theirs, whole in _renamed(names, name, value):
            kind = kind_of(theirs)
            writer.add_tensor(theirs, gguf.quantize(_stored(name, whole, config, arch).numpy(), kind), raw_dtype=kind)
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _describe(writer: gguf.GGUFWriter, config: Any, arch: str) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    if arch == "bert":
        writer.add_layer_norm_eps(config.layer_norm_eps)
        writer.add_causal_attention(False)
        return
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head)
    writer.add_value_length(head)
    rope = config.rope_parameters
    rope = rope.get("full_attention", rope)
    writer.add_rope_freq_base(rope["rope_theta"])
    if arch == "llama":
        writer.add_rope_dimension_count(head)
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if getattr(config, "num_local_experts", None):
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if getattr(config, "attn_logit_softcapping", None):
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def _renamed(names: gguf.TensorNameMap, name: str, value: Tensor) -> list[tuple[str, Tensor]]:
    """A published tensor under its name in the file; the class keeps two projections of its experts in one."""
    if ".experts." in name:
        layer = f"blk.{name.split('.')[2]}"
        if name.endswith("down_proj"):
            return [(f"{layer}.ffn_down_exps.weight", value)]
        gate, up = value.chunk(2, 1)
        return [(f"{layer}.ffn_gate_exps.weight", gate), (f"{layer}.ffn_up_exps.weight", up)]
    theirs = names.get_name(name, try_suffixes=(".weight", ".bias"))
    if name.endswith("mlp.gate.weight"):
        theirs = f"blk.{name.split('.')[2]}.ffn_gate_inp.weight"
    assert theirs is not None, name
    return [(theirs, value)]


def _stored(name: str, value: Tensor, config: Any, arch: str) -> Tensor:
    if arch == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
        heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
        return paired(value, heads)
    return value + 1 if arch.startswith("gemma") and name.endswith("norm.weight") else value


def add_tokens(writer: gguf.GGUFWriter, count: int = 97) -> None:
    """A vocabulary of ``count`` pieces in the way of SentencePiece: three of control, the bytes that fit, letters."""
    tokens = ["<unk>", "<s>", "</s>", *(chr(97 + i % 26) * (1 + i // 26) for i in range(count - 4)), "▁"]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(count)])
    writer.add_token_types([*kinds, *[gguf.TokenType.NORMAL] * (count - 3)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def exact_logits(directory: Path, kind: str, ids: Tensor, **given: Tensor) -> Tensor:
    """What the published class, read from its directory, computes in float64: logits, or else hidden states."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    made = getattr(transformers, kind)
    with oracle.exact(watch=False):
        eager = {"attn_implementation": "eager"} | ({"experts_implementation": "eager"} if "Mixtral" in kind else {})
        model = made.from_pretrained(directory, dtype=torch.float64, **eager).eval()
    with oracle.exact(), torch.no_grad():
        out = model(ids, **given)
    return out.logits if hasattr(out, "logits") else out.last_hidden_state  # type: ignore[no-any-return]


def random_blocks(kind: str, rows: int, width: int, seed: int) -> np.ndarray[Any, Any]:
    """Bytes of any type whose scales are ordinary half-precision numbers, so that every value is finite."""
    from variorum.checkpoint.gguf_header import TYPES

    _, block, size = next(entry for entry in TYPES.values() if entry[0] == kind)
    random = np.random.default_rng(seed)
    if block == 1:
        plain = random.normal(size=(rows, width)).astype(np.float32)
        return gguf.quantize(plain, gguf.GGMLQuantizationType[kind]).view(np.uint8)
    bytes_ = random.integers(0, 256, (rows, width // block * size), dtype=np.uint8)
    number = gguf.GGMLQuantizationType[kind]
    with contextlib.suppress(Exception), np.errstate(all="ignore"):
        for _ in range(1000):
            bad = ~np.isfinite(gguf.dequantize(bytes_, number)).all(1)
            if not bad.any():
                break
            bytes_[bad] = random.integers(0, 256, (int(bad.sum()), bytes_.shape[1]), dtype=np.uint8)
    return bytes_
