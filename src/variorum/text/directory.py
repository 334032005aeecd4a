"""From a published directory to a tokenizer. Reads files, runs no code from them.

``tokenizer.json`` wins where it is present, as everywhere in this ecosystem; then Mistral's ``tekken.json``, a
SentencePiece model, ``vocab.json`` with ``merges.txt``, and ``vocab.txt``. A directory's own settings decide cases and
accents, special tokens and wrappers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import DamagedFile, NotFound
from .bytelevel import SENTINELS, ByteEngine
from .dialects import dialect_named, dialect_of
from .document import MAX_ID, check_document, unknown_patterns, wrapper_of
from .dressing import build
from .encoding import Side, Slot, Wrapper
from .guard import parse_json, read_bytes, reject_lone_surrogates
from .merges import read_bpe
from .native import NativeEngine, add_tokens, backend_from_text, check_added_ids, probe_patterns
from .pieces import PieceModel
from .prompts import chosen, is_transcript, times
from .published import read_wordpiece
from .specials import Declared, read_declared
from .tekken import read_tekken
from .tokenizer import Kind, Tokenizer

PIECE_FILES = ("spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model")
SIDE_FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja")
OTHER_FILES = ("tokenizer.json", "tekken.json", "vocab.json", "merges.txt", "vocab.txt")
NO_LIMIT = 10**12  # "model_max_length" of directories that have none is a number beyond any use
KINDS: Mapping[str, Kind] = {"WordPiece": "wordpiece", "Unigram": "unigram", "WordLevel": "word_level"}


def load_tokenizer(directory: Path) -> Tokenizer:
    """Read the tokenizer of a published directory.

    Args:
        directory: a local directory, as published or as :meth:`Tokenizer.save` wrote it.

    Raises:
        NotFound: the directory does not exist or has no tokenizer file.
        DamagedFile: a file is damaged, contradicts another, or breaks the engine.
        AccessError: a file cannot be read.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise NotFound("no such directory", where=str(directory))
    declared = read_declared(directory, _json)
    family = _family(directory, declared)
    tokenizer = _read(directory, declared, family)
    settings = declared.settings
    padding, cut = (_side(settings, key) for key in ("padding_side", "truncation_side"))
    limit, pad_type = settings.get("model_max_length"), settings.get("pad_token_type_id")
    wrapper, choices = chosen(tokenizer.engine, tokenizer.wrapper, declared, str(directory))
    return replace(
        tokenizer,
        wrapper=wrapper,
        choices=choices,
        files=_published_files(directory),
        padding_side=padding or tokenizer.padding_side,
        truncation_side=cut or tokenizer.truncation_side,
        pad_type_id=pad_type if type(pad_type) is int and 0 <= pad_type < 2**15 else tokenizer.pad_type_id,
        model_max_length=limit if type(limit) is int and 0 < limit < NO_LIMIT else None,
        tidy=_is_tidy(declared, tokenizer.kind),
        marks=times(tokenizer.engine) if is_transcript(tokenizer.engine) else frozenset(),
    )


def holds_tokenizer(directory: Path) -> bool:
    """Whether a directory has a tokenizer: a file of one, or settings that name the one without a file (ByT5's)."""
    if any((directory / name).exists() for name in (*PIECE_FILES, *OTHER_FILES)):
        return True
    return "byt5" in _family(directory, read_declared(directory, _json))[0].lower()


def _family(directory: Path, declared: Declared) -> tuple[str, str]:
    """The tokenizer class and the model type that a directory names, or empty strings."""
    path = directory / "config.json"
    config = _json(path) if path.exists() else {}
    class_name = declared.settings.get("tokenizer_class") or config.get("tokenizer_class")
    return str(class_name or ""), str(config.get("model_type") or "")


def _is_tidy(declared: Declared, kind: Kind) -> bool:
    """Whether decoded text is tidied. Text of merges is exact as it is, so there the setting alone does not count."""
    exact = kind in ("byte_level_bpe", "bpe", "bytes")
    name = "clean_up_tokenization_spaces"
    return declared.flag(f"{name}_for_bpe_even_though_it_will_corrupt_output" if exact else name, False) is True


def _read(directory: Path, declared: Declared, family: tuple[str, str]) -> Tokenizer:
    if (directory / "tokenizer.json").exists():
        made = _from_document(directory / "tokenizer.json", declared)
        worn = next((found for found in map(dialect_named, family) if found is not None), None)
        return replace(made, padding_side=worn.padding_side, pad_type_id=worn.pad_type_id) if worn else made
    if (directory / "tekken.json").exists():
        engine, wrapper, roles = read_tekken(directory / "tekken.json")
        return Tokenizer(kind="byte_level_bpe", engine=engine, wrapper=wrapper, special=roles, padding_side="left")
    model = _piece_file(directory)
    if model is not None:
        return _from_pieces(model, declared, family)
    vocab_json, merges = directory / "vocab.json", directory / "merges.txt"
    if vocab_json.exists() and merges.exists():
        backend, kind, wrapper, declared = read_bpe(vocab_json, merges, declared, family[1])
        engine = NativeEngine(backend, where=str(vocab_json))
        wrapper = _switched(wrapper, declared, engine.lookup)
        return Tokenizer(kind=kind, engine=engine, wrapper=wrapper, special=_present(declared, engine))
    if (directory / "vocab.txt").exists():
        backend, wrapper, declared = read_wordpiece(directory / "vocab.txt", declared)
        engine = NativeEngine(backend, where=str(directory / "vocab.txt"))
        return Tokenizer(kind="wordpiece", engine=engine, wrapper=wrapper, special=_present(declared, engine))
    if "byt5" in family[0].lower():
        sentinels = declared.settings.get("extra_ids", SENTINELS)
        if type(sentinels) is not int or not 0 <= sentinels < MAX_ID:
            raise DamagedFile(f"extra_ids {sentinels!r:.40} is not a small number", where=str(directory))
        return byte_tokenizer(sentinels)
    raise NotFound(
        "no tokenizer file", where=str(directory), remedy=f"expected one of {', '.join((*OTHER_FILES, *PIECE_FILES))}"
    )


def _from_document(path: Path, declared: Declared) -> Tokenizer:
    where = str(path)
    data = read_bytes(path)
    document = parse_json(data, path)
    reject_lone_surrogates(data, document, path)
    model = check_document(document, where)
    unknown = unknown_patterns(document)
    if unknown:
        probe_patterns(unknown, where)
    backend = backend_from_text(data.decode("utf-8"), where)
    wrapper = wrapper_of(document, where)
    check_added_ids(backend, document, where)
    add_tokens(backend, declared.added.values(), where)
    engine = NativeEngine(backend, where=where, guarded=bool(unknown))
    known = range(len(engine.names))
    for slot in (*wrapper.single, *wrapper.pair):
        if slot.id is not None and slot.id not in known:
            raise DamagedFile(f"the post-processor adds id {slot.id}, beyond {len(known)} tokens", where=where)
    declared = replace(declared, roles=_guessed_roles(document, wrapper, engine) | dict(declared.roles))
    return Tokenizer(
        kind=KINDS.get(model) or ("byte_level_bpe" if _is_byte_level(document) else "bpe"),
        engine=engine,
        wrapper=wrapper,
        special=_present(declared, engine),
    )


def _is_byte_level(document: Mapping[str, Any]) -> bool:
    found = document.get("pre_tokenizer") or {}
    return any(node.get("type") == "ByteLevel" for node in [found, *found.get("pretokenizers", [])])


def _guessed_roles(document: Mapping[str, Any], wrapper: Wrapper, engine: NativeEngine) -> dict[str, str]:
    """Roles of a ``tokenizer.json`` without side files: the unknown token it names, and well-known spellings."""
    roles: dict[str, str] = {}
    model = document["model"]
    if isinstance(model.get("unk_token"), str):
        roles["unk"] = model["unk_token"]
    elif type(model.get("unk_id")) is int:
        roles["unk"] = engine.names[model["unk_id"]]
    spelled = {"[PAD]": "pad", "<pad>": "pad", "[MASK]": "mask", "<mask>": "mask", "[CLS]": "cls", "[SEP]": "sep"}
    for id in engine.special_ids:
        role = spelled.get(engine.names[id])
        if role is not None:
            roles.setdefault(role, engine.names[id])
    return roles


def _from_pieces(path: Path, declared: Declared, family: tuple[str, str]) -> Tokenizer:
    model = PieceModel(read_bytes(path), str(path))
    dialect = dialect_of(*family, set(model.names), path.name)
    engine, wrapper, declared = build(model, dialect, declared)
    return Tokenizer(
        kind="unigram" if model.algorithm == "unigram" else "bpe",
        engine=engine,
        wrapper=wrapper,
        special={role: token for role, token in declared.roles.items() if token in engine.lookup},
        padding_side=dialect.padding_side,
        pad_type_id=dialect.pad_type_id,
    )


def byte_tokenizer(sentinels: int = SENTINELS) -> Tokenizer:
    """ByT5's: no vocabulary file, id = byte + 3, 125 sentinels after the bytes (google-research/byt5)."""
    engine = ByteEngine(sentinels)
    eos = engine.lookup["</s>"]
    wrapper = Wrapper.of([("A", 0), (eos, 0)], [("A", 0), (eos, 0), ("B", 0), (eos, 0)])
    return Tokenizer(
        kind="bytes", engine=engine, wrapper=wrapper, special={"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
    )


def _present(declared: Declared, engine: NativeEngine) -> dict[str, str]:
    return {role: token for role, token in declared.roles.items() if token in engine.lookup}


def _switched(wrapper: Wrapper, declared: Declared, lookup: Mapping[str, int]) -> Wrapper:
    """``add_bos_token`` and ``add_eos_token``, where a directory without ``tokenizer.json`` sets them.

    A ``tokenizer.json`` says itself what it puts around a text, and is not overruled: the reference drops these
    settings beside one, so that a begin token is never put twice.
    """
    if declared.settings.get("add_bos_token") is None and declared.settings.get("add_eos_token") is None:
        return wrapper

    def slots(type_id: int, sequence: int) -> tuple[Slot, ...]:
        out = [Slot(sequence=sequence, type_id=type_id)]
        bos, eos = (lookup.get(declared.roles.get(role, "")) for role in ("bos", "eos"))
        if declared.flag("add_bos_token") and bos is not None:
            out.insert(0, Slot(id=bos, type_id=type_id))
        if declared.flag("add_eos_token") and eos is not None:
            out.append(Slot(id=eos, type_id=type_id))
        return tuple(out)

    return Wrapper(single=slots(0, 0), pair=slots(0, 0) + slots(1, 1))


def _side(settings: Mapping[str, Any], key: str) -> Side | None:
    value = settings.get(key)
    if value is None or value == "right" or value == "left":
        return value
    raise DamagedFile(f"{key} is {value!r:.40}, neither left nor right", where="tokenizer_config.json")


def _piece_file(directory: Path) -> Path | None:
    for name in PIECE_FILES:
        if (directory / name).exists():
            return directory / name
    versioned = sorted(directory.glob("*.model.v*"))  # Mistral adds the template's version to the name
    return versioned[-1] if versioned else None


def _published_files(directory: Path) -> dict[str, bytes]:
    names = [*SIDE_FILES, *OTHER_FILES, *PIECE_FILES, *(path.name for path in directory.glob("*.model.v*"))]
    return {name: read_bytes(directory / name) for name in names if (directory / name).is_file()}


def _json(path: Path) -> dict[str, Any]:
    return parse_json(read_bytes(path), path)
