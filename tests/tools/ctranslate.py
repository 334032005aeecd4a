"""Whisper in the layout of CTranslate2, which its package carries, as a published directory. Not part of the product.

The file is a list of named arrays: counts, names and shapes in front of each one's bytes, little-endian.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

DTYPES = {0: torch.float32, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.float16}
SPECIAL = {"bos_token_id": 50_257, "eos_token_id": 50_257, "pad_token_id": 50_257, "decoder_start_token_id": 50_258}
SUBLAYERS = {"self_attention": "self_attn", "attention": "encoder_attn"}
NORMS = {"self_attention": "self_attn_layer_norm", "attention": "encoder_attn_layer_norm", "ffn": "final_layer_norm"}
ENDS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, kind: str) -> int:
        value = struct.unpack_from(f"<{kind}", self.data, self.at)[0]
        self.at += struct.calcsize(f"<{kind}")
        return int(value)

    def bytes(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def name(self) -> str:
        return self.bytes(self.number("H")).rstrip(b"\0").decode()


def arrays(file: Path) -> dict[str, Tensor]:
    """Every array of a model file by its name."""
    reader = _Reader(file.read_bytes())
    version, kind = reader.number("I"), reader.name()
    assert (version, kind) == (6, "WhisperSpec"), f"version {version} of {kind}"
    reader.number("I")  # the revision of the kind
    found: dict[str, Tensor] = {}
    for _ in range(reader.number("I")):
        name = reader.name()
        shape = [reader.number("I") for _ in range(reader.number("B"))]
        dtype, raw = DTYPES[reader.number("B")], reader.bytes(reader.number("I"))
        found[name] = torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape)
    return found


def renamed(found: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The weights under their published names; fused projections apart, keys without the bias that is nought."""
    for name, value in found.items():
        if not value.is_floating_point():
            continue
        stack, *path, end = name.split("/")
        below = ".".join([f"model.{stack}", *(part.replace("layer_", "layers.") for part in path if part[:6] == "layer_"
                                              and part[6:].isdigit())])  # fmt: skip
        sublayer = next((part for part in path if part in NORMS), None)
        if sublayer is None:
            inner = {"embeddings": "embed_tokens", "position_encodings": "embed_positions"}.get(path[0], path[0])
            yield f"{below}.{inner}.{ENDS.get(end, 'weight')}", value
        elif "layer_norm" in path:
            yield f"{below}.{NORMS[sublayer]}.{ENDS[end]}", value
        elif sublayer == "ffn":
            yield f"{below}.fc{int(path[-1][-1]) + 1}.{end}", value
        else:
            for letter, part in _projections(sublayer, int(path[-1][-1]), value):
                if (letter, end) != ("k", "bias"):
                    yield f"{below}.{SUBLAYERS[sublayer]}.{letter}_proj.{end}", part.clone()


def _projections(sublayer: str, linear: int, value: Tensor) -> list[tuple[str, Tensor]]:
    letters = {("self_attention", 0): "qkv", ("attention", 0): "q", ("attention", 1): "kv"}.get((sublayer, linear))
    if letters is None:
        return [("out", value)]
    return list(zip(letters, value.chunk(len(letters)), strict=True))


def convert(source: Path, target: Path) -> None:
    """``model.bin``, ``config.json`` and ``tokenizer.json`` in ``source`` as a published directory ``target``."""
    found = arrays(source / "model.bin")
    told = json.loads((source / "config.json").read_text("utf-8"))
    vocab, width = found["decoder/embeddings/weight"].shape
    heads, layers = int(found["decoder/num_heads"]), sum(n.endswith("ffn/layer_norm/beta") for n in found) // 2
    config = {
        "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "vocab_size": vocab,
        "d_model": width, "encoder_layers": layers, "decoder_layers": layers, "encoder_attention_heads": heads,
        "decoder_attention_heads": heads, "encoder_ffn_dim": 4 * width, "decoder_ffn_dim": 4 * width,
        "num_mel_bins": found["encoder/conv1/weight"].shape[1], "max_source_positions": 1500,
        "max_target_positions": len(found["decoder/position_encodings/encodings"]), **SPECIAL,
    }  # fmt: skip
    generation = {
        **SPECIAL, "suppress_tokens": told["suppress_ids"], "begin_suppress_tokens": told["suppress_ids_begin"],
        "is_multilingual": True, "lang_to_id": {}, "task_to_id": {"transcribe": 50_359, "translate": 50_358},
        "no_timestamps_token_id": 50_363, "max_length": 448,
    }  # fmt: skip
    tokenizer = json.loads((source / "tokenizer.json").read_text("utf-8"))
    names = {entry["id"]: entry["content"] for entry in tokenizer["added_tokens"]}
    generation["lang_to_id"] = {names[one]: one for one in told["lang_ids"]}
    target.mkdir(parents=True)
    save_file(dict(renamed(found)), target / "model.safetensors", metadata={"format": "pt"})
    (target / "config.json").write_text(json.dumps(config), "utf-8")
    (target / "generation_config.json").write_text(json.dumps(generation), "utf-8")
    (target / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
