"""``vocab.txt``: BERT's normaliser and greedy WordPiece, as the released code built them from it.

``vocab.json`` with ``merges.txt`` is :mod:`variorum.text.merges`, SentencePiece models are :mod:`variorum.text.pieces`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from ..errors import DamagedFile
from .encoding import Wrapper
from .guard import decode_text, read_bytes
from .native import add_tokens
from .specials import Declared

MAX_WORD = 100  # characters; a longer word is one unknown token (google-research/bert, tokenization.py)

BERT_ROLES = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}


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
