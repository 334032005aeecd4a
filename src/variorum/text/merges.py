"""``vocab.json`` with ``merges.txt``: byte-pair encoding as GPT-1, GPT-2 and their heirs published it.

What differs between the heirs is data, one entry each: how a text is cut before merging, and the wrapper. A directory
names its family in ``tokenizer_config.json``; where it does not, the vocabulary tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from ..errors import DamagedFile
from .document import MAX_ID, QWEN2_PATTERN
from .encoding import Wrapper
from .guard import decode_text, native, parse_json, read_bytes
from .native import add_tokens
from .published import BERT_ROLES
from .specials import Declared
from .tokenizer import Kind

ROBERTA_ROLES = {
    "bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>",
}  # fmt: skip
GPT2_ROLES = {"unk": "<|endoftext|>", "bos": "<|endoftext|>", "eos": "<|endoftext|>"}
DEBERTA_ROLES = {**BERT_ROLES, "bos": "[CLS]", "eos": "[SEP]"}
WORD_END = "</w>"


@dataclass(frozen=True, kw_only=True)
class Heir:
    """One way of using a vocabulary of merges.

    Attributes:
        classes: parts of tokenizer classes and model types that mean it.
        roles: special tokens, as far as the vocabulary has them.
        cut: "gpt2" and "qwen2" are patterns over bytes; "words" are BERT's lower-cased words, ended by ``</w>``.
        composed: put characters in composed form first (NFC).
        wrapper: what stands around a text: nothing, or BERT's or RoBERTa's tokens.
    """

    classes: tuple[str, ...]
    roles: Mapping[str, str] = field(default_factory=dict)
    cut: Literal["gpt2", "qwen2", "words"] = "gpt2"
    composed: bool = False
    wrapper: Literal["", "bert", "roberta"] = ""


DEBERTA = Heir(classes=("deberta",), roles=DEBERTA_ROLES, wrapper="bert")
ROBERTA = Heir(classes=("roberta", "bart", "longformer", "led"), roles=ROBERTA_ROLES, wrapper="roberta")
QWEN2 = Heir(
    classes=("qwen2", "qwen3"),
    roles={"unk": "<|endoftext|>", "eos": "<|endoftext|>", "pad": "<|endoftext|>"},
    cut="qwen2",
    composed=True,
)
NEOX = Heir(classes=("neox",), roles={**GPT2_ROLES, "pad": "<|padding|>"}, composed=True)
GPT1 = Heir(classes=("openaigpt", "openai-gpt"), roles={"unk": "<unk>"}, cut="words")
GPT2 = Heir(classes=("gpt2", "whisper"), roles=GPT2_ROLES)
HEIRS = (DEBERTA, ROBERTA, QWEN2, NEOX, GPT1, GPT2)


def read_merges(path: Path) -> list[tuple[str, str]]:
    """The merge list of GPT-2's format: an optional ``#version`` line, then one pair per line."""
    lines = decode_text(read_bytes(path), path).split("\n")
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, space, right = line.partition(" ")
        if not (left and space and right) or " " in right:
            raise DamagedFile("not a pair of tokens", where=f"{path}, line {number}")
        merges.append((left, right))
    return merges


def read_bpe(
    vocab_path: Path, merges_path: Path, declared: Declared, model_type: str
) -> tuple[tokenizers.Tokenizer, Kind, Wrapper, Declared]:
    """The library's object, its kind and the wrapper that the class, or else the vocabulary, calls for."""
    vocab = parse_json(read_bytes(vocab_path), vocab_path)
    for token, id in vocab.items():
        if type(id) is not int or not 0 <= id < MAX_ID:
            raise DamagedFile(f"token {token[:40]!r} has the id {id!r:.40}", where=str(vocab_path))
    merges = read_merges(merges_path)
    for left, right in merges:
        missing = next((part for part in (left, right, left + right) if part not in vocab), None)
        if missing is not None:
            raise DamagedFile(f"{missing[:40]!r} of a merge is not in {vocab_path.name}", where=str(merges_path))
    heir = _heir(vocab, declared, model_type)
    declared = declared.with_defaults(**{role: token for role, token in heir.roles.items() if token in vocab})
    backend = native(lambda: _backend(vocab, merges, heir, declared), "not a BPE vocabulary", str(vocab_path))
    add_tokens(backend, declared.added.values(), str(vocab_path))
    kind: Kind = "bpe" if heir.cut == "words" else "byte_level_bpe"
    if not heir.wrapper:
        return backend, kind, Wrapper(), declared
    cls, sep = (backend.token_to_id(declared.roles.get(role, "")) for role in ("cls", "sep"))
    if cls is None or sep is None:
        raise DamagedFile("no cls or sep token in the vocabulary", where=str(vocab_path))
    single: list[tuple[int | str, int]] = [(cls, 0), ("A", 0), (sep, 0)]
    if heir.wrapper == "bert":
        return backend, kind, Wrapper.of(single, [*single, ("B", 1), (sep, 1)]), declared
    backend.post_processor = processors.RobertaProcessing(
        (declared.roles["sep"], sep),
        (declared.roles["cls"], cls),
        trim_offsets=declared.flag("trim_offsets", True) is not False,
        add_prefix_space=bool(declared.flag("add_prefix_space")),
    )
    return backend, kind, Wrapper.of(single, [*single, (sep, 0), ("B", 0), (sep, 0)]), declared


def _backend(
    vocab: dict[str, int], merges: list[tuple[str, str]], heir: Heir, declared: Declared
) -> tokenizers.Tokenizer:
    if heir.cut == "words":
        unk = declared.roles.get("unk", "<unk>")
        backend = tokenizers.Tokenizer(
            models.BPE(vocab=vocab, merges=merges, end_of_word_suffix=WORD_END, unk_token=unk)
        )
        backend.normalizer = normalizers.BertNormalizer(lowercase=declared.flag("do_lower_case", True) is not False)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.BPEDecoder(suffix=WORD_END)
        return backend
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    prefix = bool(declared.flag("add_prefix_space"))
    if heir.composed:
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=heir.cut == "gpt2")
    if heir.cut == "qwen2":
        split = pre_tokenizers.Split(tokenizers.Regex(QWEN2_PATTERN), "isolated")
        backend.pre_tokenizer = pre_tokenizers.Sequence([split, backend.pre_tokenizer])
    backend.decoder = decoders.ByteLevel()
    return backend


def _heir(vocab: Mapping[str, object], declared: Declared, model_type: str) -> Heir:
    for name in (str(declared.settings.get("tokenizer_class", "")), model_type):
        for heir in HEIRS:
            if any(
                part in name.lower().replace("gptneox", "neox").replace("gpt_neox", "neox") for part in heir.classes
            ):
                return heir
    if "[CLS]" in vocab and "[SEP]" in vocab:
        return DEBERTA
    if "<s>" in vocab and "</s>" in vocab and "<mask>" in vocab:
        return ROBERTA
    return GPT1 if any(token.endswith(WORD_END) for token in vocab) else GPT2
