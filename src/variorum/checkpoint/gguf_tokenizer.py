"""A GGUF file's tokenizer as the files that a published directory would hold, and read as those are.

The metadata holds pieces, scores, kinds and merges; from them come a SentencePiece model (``llama``), a
``tokenizer.json`` (``gpt2``) or a ``vocab.txt`` (``bert``), so that ids are made by the same engines and a saved model
carries a tokenizer that other libraries read. How text is cut before merging is one word in the file
(``tokenizer.ggml.pre``); the rule behind each word is the published tokenizer's.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from variorum.errors import DamagedFile, VariorumError
from variorum.text import Tokenizer, load_tokenizer

KEY = "tokenizer.ggml."
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # SentencePiece's own numbers
ROLES = {  # role -> the key that holds its id; BERT's separator is spelt as llama.cpp spells it
    "bos": "bos_token_id", "eos": "eos_token_id", "unk": "unknown_token_id", "pad": "padding_token_id",
    "cls": "cls_token_id", "sep": "seperator_token_id", "mask": "mask_token_id",
}  # fmt: skip

NO_ID = (1 << 64) - 1  # -1 as protobuf writes it
Json = dict[str, Any]
_BYTES: Json = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
_GPT2: Json = _BYTES | {"use_regex": True}
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = _LETTERS + r"\p{N}{1,3}" + _REST
QWEN2 = _LETTERS + r"\p{N}" + _REST
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


def _split(pattern: str) -> Json:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


@dataclasses.dataclass(frozen=True)
class Pre:
    """How text is cut before merging: the steps, and what comes before and beside them.

    ``whole`` takes a stretch that is a token as that token, without merging; ``begins`` puts a begin token where the
    file does not say; ``nfc`` composes characters first.
    """

    steps: tuple[Json, ...]
    whole: bool = False
    begins: bool = False
    nfc: bool = False


_DIGITS = Pre(({"type": "Digits", "individual_digits": True}, _GPT2))
_FALCON = Pre(({"type": "Punctuation", "behavior": "Contiguous"}, _GPT2,
               {"type": "Digits", "individual_digits": False}, _split("[0-9][0-9][0-9]")))  # fmt: skip
_THREES = Pre((_split(LLAMA3), _BYTES), whole=True, begins=True)
_ONES = Pre((_split(QWEN2), _BYTES), nfc=True)
PRE = {
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jina-en", "jina-es", "jina-de", "roberta-bpe"), Pre((_GPT2,))),
    **dict.fromkeys(("smollm", "starcoder", "refact"), _DIGITS),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), _THREES),
    **dict.fromkeys(("dbrx", "smaug-bpe"), Pre((_split(LLAMA3), _BYTES))),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), _ONES),
    "tekken": Pre((_split(TEKKEN), _BYTES), whole=True),
    "falcon": _FALCON,
    "bloom": Pre((_split(BLOOM), _BYTES)),
}


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The pieces of a file with what it says of them; ``roles`` maps a role to its id."""

    metadata: Mapping[str, Any]
    where: str
    tokens: Sequence[str]
    kinds: Sequence[int]
    roles: Mapping[str, int]

    def get(self, name: str) -> Any:
        """The value of a key below ``tokenizer.ggml.``, or None."""
        return self.metadata.get(KEY + name)

    def flag(self, name: str, default: bool) -> bool:
        """A switch.

        Raises:
            DamagedFile: it is neither on nor off.
        """
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise DamagedFile(f"{KEY}{name} is {value!r:.40}, neither true nor false", where=self.where)
        return value


def load_gguf_tokenizer(metadata: Mapping[str, Any], path: Path) -> Tokenizer | None:
    """The tokenizer that the metadata of the file at ``path`` describes; None where it has none.

    Raises:
        DamagedFile: the pieces contradict themselves, or are cut in a way that is not known.
    """
    if KEY + "model" not in metadata:
        return None
    files = published_files(metadata, str(path))
    with tempfile.TemporaryDirectory(prefix="variorum-") as place:
        for name, content in files.items():
            Path(place, name).write_bytes(content)
        try:
            return load_tokenizer(Path(place))
        except VariorumError as error:
            raise DamagedFile(f"its tokenizer: {error.what}", where=str(path), remedy=error.remedy) from error


def published_files(metadata: Mapping[str, Any], where: str) -> dict[str, bytes]:
    """The tokenizer files of a published directory, by name.

    Raises:
        DamagedFile: see :func:`load_gguf_tokenizer`.
    """
    makers: dict[str, Callable[[Vocabulary], dict[str, bytes]]] = {
        "llama": _sentencepiece, "gpt2": _byte_level, "bert": _wordpiece
    }  # fmt: skip
    kind = metadata.get(KEY + "model")
    if kind not in makers:
        raise DamagedFile(f"its tokenizer is of the kind {kind!r:.40}; {', '.join(makers)} are read", where=where)
    vocabulary = _vocabulary(metadata, where)
    made = makers[kind](vocabulary)
    settings = _settings(vocabulary, kind)
    return made | {"tokenizer_config.json": _json(settings)}


def _vocabulary(metadata: Mapping[str, Any], where: str) -> Vocabulary:
    tokens, kinds = metadata.get(KEY + "tokens"), metadata.get(KEY + "token_type")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        raise DamagedFile(f"{KEY}tokens is no list of texts", where=where)
    kinds = [NORMAL] * len(tokens) if kinds is None else kinds
    if not isinstance(kinds, list) or len(kinds) != len(tokens) or not set(kinds) <= set(range(7)):
        raise DamagedFile(f"{KEY}token_type does not give the kind of each of {len(tokens):,} tokens", where=where)
    roles = {}
    for role, key in ROLES.items():
        id = metadata.get(KEY + key)
        if id is None:
            continue
        if type(id) is not int or not 0 <= id < len(tokens):
            raise DamagedFile(f"{KEY}{key} is {id!r:.40}, beyond {len(tokens):,} tokens", where=where)
        roles[role] = id
    return Vocabulary(metadata, where, tokens, kinds, roles)


def _settings(vocabulary: Vocabulary, kind: str) -> Json:
    """``tokenizer_config.json``: roles, switches, the longest text and the chat template."""
    settings: Json = {f"{role}_token": vocabulary.tokens[id] for role, id in vocabulary.roles.items()}
    family = vocabulary.metadata.get("general.architecture", "")
    settings |= {"clean_up_tokenization_spaces": False, "model_max_length": vocabulary.metadata.get(
        f"{family}.context_length")}  # fmt: skip
    if kind == "llama":
        gemma = str(family).startswith("gemma")
        settings |= {"tokenizer_class": "GemmaTokenizer" if gemma else "LlamaTokenizer", "legacy": False,
                     "add_bos_token": vocabulary.flag("add_bos_token", True),
                     "add_eos_token": vocabulary.flag("add_eos_token", False)}  # fmt: skip
    else:
        settings["tokenizer_class"] = "BertTokenizer" if kind == "bert" else "PreTrainedTokenizerFast"
    template = vocabulary.metadata.get("tokenizer.chat_template")
    if isinstance(template, str):
        settings["chat_template"] = template
    return {name: value for name, value in settings.items() if value is not None}


def _sentencepiece(vocabulary: Vocabulary) -> dict[str, bytes]:
    """A SentencePiece model (sentencepiece_model.proto) of the kind that merges by score."""
    scores = vocabulary.get("scores")
    count = len(vocabulary.tokens)
    if not isinstance(scores, list) or len(scores) != count:
        raise DamagedFile(f"{KEY}scores does not score each of {count:,} tokens", where=vocabulary.where)
    pieces, roles = [], {"unk": 0, **vocabulary.roles}
    for id, (token, kind, score) in enumerate(zip(vocabulary.tokens, vocabulary.kinds, scores, strict=True)):
        if id == roles["unk"]:
            kind = UNKNOWN
        elif kind in (0, UNKNOWN):  # a model has one unknown piece
            kind = NORMAL
        elif kind == USER_DEFINED:
            token = token.replace(" ", "▁")  # the converter spells the space of these out
        body = _field(1, token.encode()) + b"\x15" + struct.pack("<f", score) + _field(3, kind)
        pieces.append(_field(1, body))
    trainer = [_field(3, 2), _field(4, count), _field(35, int(BYTE in vocabulary.kinds))]
    for place, role in enumerate(("unk", "bos", "eos", "pad")):
        own = roles.get(role)
        trainer.append(_field(40 + place, NO_ID if own is None else own))
        if own is not None:
            trainer.append(_field(45 + place, vocabulary.tokens[own].encode()))
    normaliser = [
        _field(1, b"identity"), _field(3, int(vocabulary.flag("add_space_prefix", True))),
        _field(4, int(vocabulary.flag("remove_extra_whitespaces", False))), _field(5, 1),
    ]  # fmt: skip
    return {"tokenizer.model": b"".join((*pieces, _field(2, b"".join(trainer)), _field(3, b"".join(normaliser))))}


def _field(number: int, value: int | bytes) -> bytes:
    """One field of a protobuf message: a number, or bytes with their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


def _byte_level(vocabulary: Vocabulary) -> dict[str, bytes]:
    """A byte-level BPE as ``tokenizer.json``."""
    name, merges = vocabulary.get("pre"), vocabulary.get("merges")
    if name not in PRE:
        raise DamagedFile(
            f"cuts text before merging in the way {name!r:.40}, which is not known",
            where=vocabulary.where, remedy=f"known: {', '.join(PRE)}",
        )  # fmt: skip
    if not isinstance(merges, list) or not all(isinstance(merge, str) and " " in merge for merge in merges):
        raise DamagedFile(f"{KEY}merges is no list of pairs", where=vocabulary.where)
    vocab = {token: id for id, token in enumerate(vocabulary.tokens)}
    if len(vocab) != len(vocabulary.tokens):
        raise DamagedFile("two tokens have one spelling", where=vocabulary.where)
    pre: Pre = PRE[name]
    begins = vocabulary.flag("add_bos_token", pre.begins)
    document = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": _added(vocabulary),
        "normalizer": {"type": "NFC"} if pre.nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": list(pre.steps)},
        "post_processor": _wrapper(vocabulary, begins, vocabulary.flag("add_eos_token", False)),
        "decoder": _GPT2 | {"add_prefix_space": True},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": pre.whole,
            "vocab": vocab, "merges": [merge.split(" ", 1) for merge in merges],
        },
    }  # fmt: skip
    return {"tokenizer.json": _json(document)}


def _added(vocabulary: Vocabulary) -> list[Json]:
    """Tokens that are matched before anything is cut: control tokens are special, user-defined ones are not."""
    return [
        {"id": id, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": kind == USER_DEFINED, "special": kind == CONTROL}
        for id, (token, kind) in enumerate(zip(vocabulary.tokens, vocabulary.kinds, strict=True))
        if kind in (CONTROL, USER_DEFINED) and token
    ]  # fmt: skip


def _wrapper(vocabulary: Vocabulary, begins: bool, ends: bool) -> Json:
    """The begin and end tokens around a text, as a post-processor."""
    roles = {role: vocabulary.roles[role] for role, on in (("bos", begins), ("eos", ends))
             if on and role in vocabulary.roles}  # fmt: skip
    names = {role: vocabulary.tokens[id] for role, id in roles.items()}

    def around(which: str, type_id: int) -> list[Json]:
        special = {role: [{"SpecialToken": {"id": name, "type_id": type_id}}] for role, name in names.items()}
        text = {"Sequence": {"id": which, "type_id": type_id}}
        return [*special.get("bos", []), text, *special.get("eos", [])]

    tokens = {name: {"id": name, "ids": [roles[role]], "tokens": [name]} for role, name in names.items()}
    return {"type": "TemplateProcessing", "single": around("A", 0), "pair": around("A", 0) + around("B", 1),
            "special_tokens": tokens}  # fmt: skip


def _wordpiece(vocabulary: Vocabulary) -> dict[str, bytes]:
    """A WordPiece vocabulary: the converter marks what begins a word, ``vocab.txt`` what continues one."""

    def spelt(token: str, kind: int) -> str:
        if token.startswith("▁"):
            return token[1:]
        named = kind in (CONTROL, UNKNOWN) or (token.startswith("[") and token.endswith("]"))
        return token if named else f"##{token}"

    lines = [spelt(token, kind) for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True)]
    if any("\n" in line or "\r" in line for line in lines):
        raise DamagedFile("a token holds a line break, which no vocab.txt can", where=vocabulary.where)
    return {"vocab.txt": "".join(f"{line}\n" for line in lines).encode()}


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n"
