"""Mistral's ``tekken.json``: byte-level BPE given as ranked byte strings, special tokens first.

The ranks are turned into merges for the native engine: every way to split a token into two tokens, in rank order,
and a word that is a token as a whole is taken whole. mistral-common is the reference; nothing of it is used here.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from ..errors import DamagedFile
from .document import KNOWN_PATTERNS, MAX_ID
from .encoding import Wrapper
from .guard import native, parse_json, read_bytes
from .native import NativeEngine, add_tokens, probe_patterns
from .specials import Added

# The special tokens of the first files, which did not list them (mistral-common, Tekkenizer.DEPRECATED_SPECIAL_TOKENS).
FIRST_SPECIALS = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
    "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
)  # fmt: skip
ROLES = {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>"}


def byte_alphabet() -> dict[int, str]:
    """GPT-2's printable character for each byte (openai/gpt-2, ``bytes_to_unicode``)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + place) for place, byte in enumerate(others)}


def read_tekken(path: Path) -> tuple[NativeEngine, Wrapper, dict[str, str]]:
    """Engine, wrapper (one begin token) and roles of a ``tekken.json``."""
    where = str(path)
    document = parse_json(read_bytes(path), path)
    config = document.get("config")
    if not isinstance(config, dict):
        raise DamagedFile("no config section", where=where)
    n_special, size = (_number(config, key, where) for key in ("default_num_special_tokens", "default_vocab_size"))
    pattern = config.get("pattern")
    if not isinstance(pattern, str):
        raise DamagedFile("no pattern", where=where)
    guarded = pattern not in KNOWN_PATTERNS
    if guarded:
        probe_patterns([pattern], where)
    specials = _specials(document.get("special_tokens"), n_special, where)
    tokens = _tokens(document.get("vocab"), size - n_special, where)
    vocab = {token: n_special + rank for rank, token in enumerate(tokens)}
    if len(vocab) != len(tokens):
        raise DamagedFile("a token occurs twice in the vocabulary", where=where)
    taken = [token for token in specials if token in vocab]
    if taken:
        raise DamagedFile(f"special token {taken[0][:40]!r} is in the vocabulary too", where=where)
    vocab |= {token: id for id, token in enumerate(specials)}
    merges = _merges(tokens)

    def make() -> tokenizers.Tokenizer:
        backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=True))
        split = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
        backend.decoder = decoders.ByteLevel()
        return backend

    backend = native(make, "the tokenizer cannot be built", where)
    add_tokens(backend, [Added(content=token, id=id) for id, token in enumerate(specials)], where)
    roles = {role: token for role, token in ROLES.items() if token in vocab}
    if "bos" not in roles:
        raise DamagedFile("no begin token <s>", where=where)
    bos = vocab[roles["bos"]]
    wrapper = Wrapper.of([(bos, 0), ("A", 0)], [(bos, 0), ("A", 0), (bos, 1), ("B", 1)])
    return NativeEngine(backend, where=where, guarded=guarded), wrapper, roles


def _number(config: dict[str, Any], key: str, where: str) -> int:
    value = config.get(key)
    if type(value) is not int or not 0 <= value < MAX_ID:
        raise DamagedFile(f"{key} is {value!r:.40}", where=where)
    return value


def _specials(listed: Any, count: int, where: str) -> list[str]:
    """``count`` special tokens in id order; unnamed ones get the reference's filler names."""
    names: list[str | None] = [None] * count
    if listed is None:
        listed = [{"rank": rank, "token_str": token} for rank, token in enumerate(FIRST_SPECIALS[:count])]
    if not isinstance(listed, list):
        raise DamagedFile("special_tokens must be a list", where=where)
    for entry in listed:
        rank, token = (entry.get("rank"), entry.get("token_str")) if isinstance(entry, dict) else (None, None)
        if type(rank) is not int or not isinstance(token, str) or not 0 <= rank < count or names[rank] is not None:
            raise DamagedFile(f"special token {entry!r:.60} has no free place among {count}", where=where)
        names[rank] = token
    filled = [f"<SPECIAL_{rank}>" if name is None else name for rank, name in enumerate(names)]
    if len(set(filled)) != count:
        raise DamagedFile("two special tokens are spelt alike", where=where)
    return filled


def _tokens(vocab: Any, count: int, where: str) -> list[str]:
    """The first ``count`` ranked tokens in GPT-2's byte spelling; the file's surplus is not part of the vocabulary."""
    if not isinstance(vocab, list) or not 256 <= count <= len(vocab):
        raise DamagedFile(f"the vocabulary does not have the {count} tokens it announces", where=where)
    table = byte_alphabet()
    out: list[str] = []
    for rank, entry in enumerate(vocab[:count]):
        try:
            if entry["rank"] != rank:
                raise DamagedFile(f"token {rank} has rank {entry['rank']!r:.40}", where=where)
            raw = base64.b64decode(entry["token_bytes"], validate=True)
        except (KeyError, TypeError, binascii.Error):
            raise DamagedFile(f"token {rank} has no rank or no bytes", where=where) from None
        if not raw or len(raw) > 1024:
            raise DamagedFile(f"token {rank} is {len(raw)} bytes long", where=where)
        out.append(raw.decode("latin-1").translate(table))
    return out


def _merges(tokens: list[str]) -> list[tuple[str, str]]:
    """Every split of a token into two tokens: by the token's rank, then by those of its parts."""
    rank = {token: place for place, token in enumerate(tokens)}
    merges: list[tuple[str, str]] = []
    for token in tokens:
        splits = [
            (rank[token[:cut]], rank[token[cut:]], cut)
            for cut in range(1, len(token))
            if token[:cut] in rank and token[cut:] in rank
        ]
        merges += [(token[:cut], token[cut:]) for _, _, cut in sorted(splits)]
    return merges
