"""What a ``tokenizer.json`` may contain, checked before native code sees it.

Nothing is built here. The checks are those whose failure would make the engine panic, answer wrongly or fail at the
first odd text instead of at load; and the patterns that are not known to be harmless are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import DamagedFile
from .encoding import Slot, Wrapper

MODELS = {"WordPiece", "BPE", "Unigram", "WordLevel"}
MAX_ID = 2**22  # sixteen times the largest published vocabulary; ids index tables, so they must stay small

QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
# Patterns of published tokenizers: each runs in linear time on every text tried against it.
KNOWN_PATTERNS = frozenset(
    {
        # GPT-2
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        # Llama 3, cl100k
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+",
        QWEN2_PATTERN,
        # Mistral tekken
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        # DeepSeek-V3
        r"\p{N}{1,3}",
        r"[一-龥぀-ゟ゠-ヿ]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        # Falcon, BLOOM
        r"[0-9][0-9][0-9]",
        r" ?[^(\s|[.,!?…。，、।۔،])]+",
        # SentencePiece conversions
        r" {2,}",
        r"\s{2,}|[\n\r\t]",
        r"\A +| +\z",
        r"\A▁",
        r"\s+",
        r"\s",
    }
)


def unknown_patterns(document: Mapping[str, Any]) -> list[str]:
    """Regular expressions of the file that are not among the published ones."""
    found: list[str] = []
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        for node in _nodes(document.get(part)):
            pattern = node.get("Regex")
            if isinstance(pattern, str) and pattern not in KNOWN_PATTERNS and pattern not in found:
                found.append(pattern)
    return found


def _nodes(value: Any) -> Iterator[Mapping[str, Any]]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def check_document(document: Mapping[str, Any], where: str) -> str:
    """Raise :class:`DamagedFile` unless the vocabulary, merges and added tokens fit together; gives the model type."""
    model = document.get("model")
    if not isinstance(model, dict):
        raise DamagedFile("no model section", where=where)
    kind = model.get("type") or _guessed_type(model)
    if kind not in MODELS:
        raise DamagedFile(f"model type {kind!r:.40} is none of {', '.join(sorted(MODELS))}", where=where)
    if kind == "Unigram":
        _check_unigram(model, where)
    else:
        _check_vocabulary(model, kind, where)
    if kind == "BPE":
        _check_merges(model, where)
    _check_added(document.get("added_tokens", []), where)
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if not isinstance(document.get(part), dict | None):
            raise DamagedFile(f"{part} must be an object or null", where=where)
    return str(kind)


def _guessed_type(model: Mapping[str, Any]) -> str:
    """Files from before 2021 leave the type out."""
    if "merges" in model:
        return "BPE"
    if isinstance(model.get("vocab"), list):
        return "Unigram"
    return "WordPiece" if "continuing_subword_prefix" in model else "WordLevel"


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < MAX_ID


def _check_vocabulary(model: Mapping[str, Any], kind: str, where: str) -> None:
    vocab = model.get("vocab")
    if not isinstance(vocab, dict) or not vocab:
        raise DamagedFile("the vocabulary must be an object with at least one token", where=where)
    for token, id in vocab.items():
        if not _is_id(id):
            raise DamagedFile(f"token {token[:40]!r} has the id {id!r:.40}", where=where)
    if len(set(vocab.values())) != len(vocab):
        raise DamagedFile("two tokens share one id", where=where)
    unk = model.get("unk_token")
    if not isinstance(unk, str | None):
        raise DamagedFile("unk_token must be a string or null", where=where)
    if kind != "BPE" and unk not in vocab:  # byte-level BPE never meets an unknown
        raise DamagedFile(f"the unknown token {unk!r:.40} is not in the vocabulary", where=where)


def _check_merges(model: Mapping[str, Any], where: str) -> None:
    vocab, merges = model["vocab"], model.get("merges")
    if not isinstance(merges, list):
        raise DamagedFile("merges must be a list", where=where)
    prefix = model.get("continuing_subword_prefix") or ""
    if not isinstance(prefix, str):
        raise DamagedFile("continuing_subword_prefix must be a string or null", where=where)
    skip = len(prefix)
    for place, merge in enumerate(merges):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        try:
            left, right = pair
            sound = left in vocab and right in vocab and left + right[skip:] in vocab and right.startswith(prefix)
        except (TypeError, ValueError):
            sound = False
        if not sound:
            raise DamagedFile(f"merge {place} {_fault(pair, vocab, prefix)}", where=where)


def _fault(pair: Any, vocab: Mapping[str, int], prefix: str) -> str:
    if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)):
        return "is not a pair of tokens"
    missing = [part for part in pair if part not in vocab]
    if missing:
        return f"uses {missing[0][:40]!r}, which is not in the vocabulary"
    if not pair[1].startswith(prefix):
        return f"continues a word without the prefix {prefix!r:.40}"
    return "makes a token that is not in the vocabulary"


def _check_unigram(model: Mapping[str, Any], where: str) -> None:
    vocab = model.get("vocab")
    if not isinstance(vocab, list) or not vocab:
        raise DamagedFile("the vocabulary must be a list with at least one token", where=where)
    seen: set[str] = set()
    for place, entry in enumerate(vocab):
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)):
            raise DamagedFile(f"vocabulary entry {place} is not a token with its score", where=where)
        if isinstance(entry[1], bool) or not isinstance(entry[1], int | float) or not abs(entry[1]) < 1e30:
            raise DamagedFile(f"token {entry[0][:40]!r} has no finite score", where=where)
        seen.add(entry[0])
    if len(seen) != len(vocab):
        raise DamagedFile("a token occurs twice in the vocabulary", where=where)
    unk = model.get("unk_id")
    if unk is not None and (type(unk) is not int or not 0 <= unk < len(vocab)):
        raise DamagedFile(f"unk_id {unk!r:.40} is not in the vocabulary of {len(vocab)} tokens", where=where)


def _check_added(added: Any, where: str) -> None:
    if not isinstance(added, list):
        raise DamagedFile("added_tokens must be a list", where=where)
    for token in added:
        if not (isinstance(token, dict) and isinstance(token.get("content"), str) and _is_id(token.get("id"))):
            raise DamagedFile(f"added token {token!r:.60} has no content or no id", where=where)


def wrapper_of(document: Mapping[str, Any], where: str) -> Wrapper:
    """The special tokens that the file's post-processor puts around texts."""
    found = Wrapper()
    chain = [document.get("post_processor")]
    while chain:
        step = chain.pop(0)
        if not isinstance(step, dict):
            continue
        try:
            if step.get("type") == "Sequence":
                chain = list(step["processors"]) + chain
            elif step.get("type") == "TemplateProcessing":
                found = Wrapper(single=_template(step, "single"), pair=_template(step, "pair"))
            elif step.get("type") in ("BertProcessing", "RobertaProcessing"):
                found = _fixed(int(step["cls"][1]), int(step["sep"][1]), roberta=step["type"] == "RobertaProcessing")
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise DamagedFile(f"the post-processor is incomplete ({error!r:.60})", where=where) from None
    return found


def _template(step: Mapping[str, Any], which: str) -> tuple[Slot, ...]:
    slots: list[Slot] = []
    for piece in step[which]:
        if "Sequence" in piece:
            entry = piece["Sequence"]
            slots.append(Slot(sequence={"A": 0, "B": 1}[entry["id"]], type_id=int(entry["type_id"])))
        else:
            entry = piece["SpecialToken"]
            ids = step["special_tokens"][entry["id"]]["ids"]
            slots += [Slot(id=int(id), type_id=int(entry["type_id"])) for id in ids]
    sequences = [slot.sequence for slot in slots if slot.sequence is not None]
    if sorted(sequences) != ([0] if which == "single" else [0, 1]):
        raise ValueError(f"{which} template")
    return tuple(slots)


def _fixed(cls: int, sep: int, *, roberta: bool) -> Wrapper:
    single: list[tuple[int | str, int]] = [(cls, 0), ("A", 0), (sep, 0)]
    if roberta:
        return Wrapper.of(single, [*single, (sep, 0), ("B", 0), (sep, 0)])
    return Wrapper.of(single, [*single, ("B", 1), (sep, 1)])
