"""A GGUF file as a model reference: its header as a config, its end tokens, how it pools. It reads no weights."""

from __future__ import annotations

import dataclasses
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from variorum.errors import DamagedFile, NotFound, VariorumError
from variorum.family.names.gguf import FACTORS, PREFIX, config_of

from .gguf_header import Header, read_header

SUFFIX = ".gguf"
CONTROL = 3  # the token type of what only a template or the tokenizer itself may write
# What ends an answer, in families that mark turns, beside the end tokens that a file declares (as llama.cpp does).
TURN_ENDS = frozenset({
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>",
    "<|end_of_turn|>", "<EOT>", "<|eot|>",
})  # fmt: skip
_POOLING = {1: "mean", 2: "first", 3: "last"}  # llama.cpp's llama_pooling_type


@dataclasses.dataclass(frozen=True)
class Gguf:
    """An opened file: where it is, its header, and the config that a dialect reads."""

    path: Path
    header: Header
    config: Mapping[str, Any]

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self.header.metadata

    def generation(self) -> dict[str, Any]:
        """What a ``generation_config.json`` would say: the tokens that begin and end a text."""
        declared = (self.metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom"))
        tokens, kinds = (self.metadata.get(f"tokenizer.ggml.{name}") or [] for name in ("tokens", "token_type"))
        pairs = zip(tokens, kinds, strict=False)
        turns = [i for i, (token, kind) in enumerate(pairs) if kind == CONTROL and token in TURN_ENDS]
        ends = dict.fromkeys(id for id in (*declared, *turns) if type(id) is int)
        begin = self.metadata.get("tokenizer.ggml.bos_token_id")
        found = {"bos_token_id": begin, "eos_token_id": list(ends) or None}
        return {name: value for name, value in found.items() if value is not None}

    def published(self) -> dict[str, Any]:
        """Config keys that a published directory of the same model has and no part of a spec holds."""
        config = {
            "max_position_embeddings": self.config.get("context_length"),
            **{name: self.config.get(name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")},
        }
        return {name: value for name, value in config.items() if value is not None}

    def pooling(self) -> str | None:
        """How the file says sentences become vectors: "mean", "first", "last", or nothing said.

        Raises:
            DamagedFile: a way that is not implemented.
        """
        kind = self.config.get("pooling_type")
        if kind in (None, 0):
            return None
        if kind not in _POOLING:
            raise DamagedFile(
                f"asks for the pooling {kind!r}; mean, first and last token are read", where=str(self.path)
            )
        return _POOLING[kind]


def is_gguf(reference: str | Path) -> bool:
    """Whether a model reference names a GGUF file."""
    return Path(reference).suffix.lower() == SUFFIX


def read_gguf(path: Path) -> Gguf:
    """Open a file and read its header.

    Raises:
        NotFound: there is no such file, or its architecture is not known.
        DamagedFile, AccessError: as :func:`variorum.checkpoint.gguf_header.read_header`.
    """
    header = read_header(path)
    if header.metadata.get("split.count", 1) != 1:
        raise DamagedFile("is one of several parts", where=str(path), remedy="join them with llama-gguf-split --merge")
    try:
        shapes = {name: entry.shape for name, entry in header.tensors.items()}
        config = config_of(header.metadata, shapes, _factors(path, header))
    except VariorumError as error:
        raise type(error)(error.what, where=error.where or str(path), remedy=error.remedy) from error
    _check_known(config, path)
    return Gguf(path, header, config)


def _check_known(config: Mapping[str, Any], path: Path) -> None:
    from variorum.family.names.gguf import GGUF

    if config["model_type"] not in GGUF:
        name = str(config["model_type"]).removeprefix(PREFIX)
        known = ", ".join(kind.removeprefix(PREFIX) for kind in GGUF)
        raise NotFound(f"architecture {name[:40]!r} is not known", where=str(path), remedy=f"known: {known}")


def _factors(path: Path, header: Header) -> tuple[float, ...] | None:
    """The divisors of the rotary frequencies that Llama 3's files carry as a tensor."""
    entry = header.tensors.get(FACTORS)
    if entry is None:
        return None
    count = entry.end - entry.begin
    if entry.kind != "F32" or not 4 <= count <= 4096:
        raise DamagedFile(f"{FACTORS} is no short list of float32 numbers", where=str(path))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        found: tuple[float, ...] = struct.unpack(f"<{count // 4}f", mapped[entry.begin : entry.end])
    if not all(1.0 <= one < 1e6 for one in found):
        raise DamagedFile(f"{FACTORS} holds a divisor that makes no sense", where=str(path))
    return found
