"""Tokenizers of the years before ``tokenizer.json``: ``vocab.txt``, and ``vocab.json`` with ``merges.txt``.

Each reader builds what the released code built: BERT's normaliser and greedy WordPiece, and GPT-2's byte-level BPE
with the wrapper of GPT-2, RoBERTa or DeBERTa. SentencePiece models are read in :mod:`variorum.text.pieces`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from ..errors import DamagedFile
from .document import MAX_ID
from .encoding import Wrapper
from .guard import decode_text, native, parse_json, read_bytes
from .native import add_tokens
from .specials import Declared

MAX_WORD = 100  # characters; a longer word is one unknown token (google-research/bert, tokenization.py)

BERT_ROLES = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
ROBERTA_ROLES = {
    "bos": "<s>",
    "eos": "</s>",
    "sep": "</s>",
    "cls": "<s>",
    "unk": "<unk>",
    "pad": "<pad>",
    "mask": "<mask>",
}
GPT2_ROLES = {"unk": "<|endoftext|>", "bos": "<|endoftext|>", "eos": "<|endoftext|>"}
DEBERTA_ROLES = {**BERT_ROLES, "bos": "[CLS]", "eos": "[SEP]"}


def read_vocab_txt(path: Path) -> dict[str, int]:
    """One token per line, the line number is the id; a token that occurs twice keeps its last line."""
    lines = io.StringIO(decode_text(read_bytes(path), path), newline=None).readlines()
    vocab = {line.rstrip("\n"): number for number, line in enumerate(lines)}
    if not vocab:
        raise DamagedFile("empty vocabulary", where=str(path))
    return vocab


def is_cased(vocab: Mapping[str, int]) -> bool:
    """Whether a WordPiece vocabulary keeps capitals: an uncased one has none outside its [SPECIAL] tokens."""
    return any(token != token.lower() and not token.startswith("[") for token in vocab)


def read_wordpiece(path: Path, declared: Declared) -> tuple[tokenizers.Tokenizer, Wrapper, Declared]:
    """BERT's WordPiece from ``vocab.txt``.

    ``do_lower_case``, ``strip_accents`` and ``tokenize_chinese_chars`` come from ``tokenizer_config.json``.
    Lower-casing and accents are two switches: unset accents follow lower-casing, unset lower-casing the vocabulary.
    """
    vocab = read_vocab_txt(path)
    declared = declared.with_defaults(**BERT_ROLES)
    for role in ("unk", "cls", "sep"):
        token = declared.roles.get(role)
        if token not in vocab:
            raise DamagedFile(f"the {role} token {token!r} is not in the vocabulary", where=str(path))
    lower = declared.flag("do_lower_case")
    chinese = declared.flag("tokenize_chinese_chars", True)
    model = models.WordPiece(vocab, unk_token=declared.roles["unk"], max_input_chars_per_word=MAX_WORD)
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=chinese is not False,
        strip_accents=declared.flag("strip_accents"),
        lowercase=not is_cased(vocab) if lower is None else lower,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    add_tokens(backend, declared.added.values(), str(path))
    cls, sep = vocab[declared.roles["cls"]], vocab[declared.roles["sep"]]
    single: list[tuple[int | str, int]] = [(cls, 0), ("A", 0), (sep, 0)]
    return backend, Wrapper.of(single, [*single, ("B", 1), (sep, 1)]), declared


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


def read_byte_level(
    vocab_path: Path, merges_path: Path, declared: Declared
) -> tuple[tokenizers.Tokenizer, Wrapper, Declared]:
    """GPT-2's byte-level BPE, with the wrapper that the class, or else the vocabulary, calls for."""
    vocab = parse_json(read_bytes(vocab_path), vocab_path)
    for token, id in vocab.items():
        if type(id) is not int or not 0 <= id < MAX_ID:
            raise DamagedFile(f"token {token[:40]!r} has the id {id!r:.40}", where=str(vocab_path))
    merges = read_merges(merges_path)
    for left, right in merges:
        missing = next((part for part in (left, right, left + right) if part not in vocab), None)
        if missing is not None:
            raise DamagedFile(f"{missing[:40]!r} of a merge is not in {vocab_path.name}", where=str(merges_path))
    style = _style(vocab, declared)
    defaults = {"roberta": ROBERTA_ROLES, "deberta": DEBERTA_ROLES, "gpt2": GPT2_ROLES}[style]
    declared = declared.with_defaults(**{role: token for role, token in defaults.items() if token in vocab})
    prefix = bool(declared.flag("add_prefix_space"))
    backend = native(
        lambda: tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges)), "not a BPE vocabulary", str(vocab_path)
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    backend.decoder = decoders.ByteLevel()
    add_tokens(backend, declared.added.values(), str(vocab_path))
    wrapper = Wrapper()
    if style != "gpt2":
        cls, sep = (backend.token_to_id(declared.roles.get(role, "")) for role in ("cls", "sep"))
        if cls is None or sep is None:
            raise DamagedFile("no cls or sep token in the vocabulary", where=str(vocab_path))
        if style == "roberta":
            trim = declared.flag("trim_offsets", True) is not False
            names = (declared.roles["sep"], sep), (declared.roles["cls"], cls)
            backend.post_processor = processors.RobertaProcessing(*names, trim_offsets=trim, add_prefix_space=prefix)
        single: list[tuple[int | str, int]] = [(cls, 0), ("A", 0), (sep, 0)]
        wrapper = Wrapper.of(
            single, [*single, (sep, 0), ("B", 0), (sep, 0)] if style == "roberta" else [*single, ("B", 1), (sep, 1)]
        )
    return backend, wrapper, declared


def _style(vocab: Mapping[str, object], declared: Declared) -> str:
    name = str(declared.settings.get("tokenizer_class", "")).lower() + str(declared.settings.get("model_type", ""))
    for style in ("deberta", "roberta", "gpt2"):
        if style in name:
            return style
    if any(family in name for family in ("bart", "longformer", "led")):
        return "roberta"
    if "[CLS]" in vocab and "[SEP]" in vocab:
        return "deberta"
    return "roberta" if "<s>" in vocab and "</s>" in vocab and "<mask>" in vocab else "gpt2"
