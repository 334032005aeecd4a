"""Training a vocabulary from texts, in the clothes of a family, to files that others read to the same ids.

Deterministic: equal texts in equal order give equal files. WordPiece is learned by the likelihood rule of its paper;
the rule that the ``tokenizers`` library has under that name merges by frequency, and carries that in its name here.
What is trained is read back from the files that it will be saved as, so both are one.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import tokenizers
from tokenizers import normalizers, processors

from ..errors import UsageError
from . import learning
from .bytelevel import SENTINELS, SPECIALS
from .conversion import backend_of, template
from .directory import load_tokenizer
from .document import MAX_ID
from .dressing import build
from .encoding import Wrapper
from .families import FAMILIES, USUAL, Family, Method, family_named
from .native import add_tokens
from .pieces import PieceModel
from .specials import Added, Declared
from .tokenizer import Tokenizer

BYTES_SIZE = len(SPECIALS) + 256 + SENTINELS


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be trained: a family, a method of it, a size, and how texts are folded."""

    family: Family
    method: Method
    size: int
    lower: bool
    strip_accents: bool
    min_count: int
    unused: int
    extra: tuple[str, ...]

    @property
    def first(self) -> list[str]:
        """Specials with the first ids; BERT's keep places free after the first, as published."""
        first = self.family.first
        return [*first[:1], *(f"[unused{number}]" for number in range(self.unused)), *first[1:]]

    @property
    def fold(self) -> list[normalizers.Normalizer]:
        return learning.folding(self.lower, self.strip_accents)


def train(
    texts: Iterable[str],
    vocab_size: int,
    *,
    method: Method | None = None,
    family: str | None = None,
    lower: bool | None = None,
    strip_accents: bool | None = None,
    min_count: int = 1,
    unused: int = 0,
    extra: Sequence[str] = (),
) -> Tokenizer:
    """A vocabulary learned from texts.

    Args:
        texts: the corpus, in any pieces.
        vocab_size: ids in all, special tokens included; fewer if the corpus has no more to learn.
        method: how it is learned; the family's own way unless given.
        family: whose special tokens, wrapper and files it gets; the usual one of the method unless given.
        lower: lower-case texts; as the family does unless given.
        strip_accents: drop accents; follows ``lower`` unless given.
        min_count: pairs of pieces that occur less often are not merged.
        unused: places for tokens to come, after the first special token; 99 gives BERT's published special ids.
        extra: further special tokens, at the end.

    Raises:
        NotFound: no such family.
        UsageError: a method that is not the family's, a size that does not hold what must be in it, or no text.
    """
    plan = planned(vocab_size, method, family, lower, strip_accents, min_count, unused, extra)
    if plan.method == "bytes":
        return _saved_as({"tokenizer_config.json": _json({"tokenizer_class": "ByT5Tokenizer"})})
    corpus = list(_checked(texts))
    if not any(text.strip() for text in corpus):
        raise UsageError("there is no text to learn from")
    return _from_pieces(corpus, plan) if plan.family.dialect is not None else _from_words(corpus, plan)


def planned(
    size: int,
    method: Method | None,
    family: str | None,
    lower: bool | None,
    strip_accents: bool | None,
    min_count: int,
    unused: int,
    extra: Sequence[str],
) -> Plan:
    """The plan of these wishes, or a :class:`UsageError` for those that do not go together."""
    worn = family_named(family or (USUAL[method] if method is not None else "bert"))
    chosen = method or worn.methods[0]
    if chosen not in worn.methods:
        fitting = [name for name, other in FAMILIES.items() if chosen in other.methods]
        raise UsageError(
            f"{worn.name} does not use {chosen} but {' or '.join(worn.methods)}",
            remedy=f"{chosen} is used by {', '.join(fitting)}",
        )
    if size > MAX_ID:
        raise UsageError(f"vocab_size {size} is more than the {MAX_ID} ids that a tokenizer may have")
    if min_count < 1:
        raise UsageError(f"min_count {min_count} is less than 1")
    if min_count > 1 and worn.dialect is not None:
        raise UsageError(f"{chosen} of {worn.name} has no floor under counts", remedy="leave min_count out")
    if unused < 0 or (unused and worn.name != "bert"):
        raise UsageError(f"{worn.name} has no {unused} unused places", remedy="leave unused out")
    if chosen == "bytes" and (lower or strip_accents or extra or size not in (0, BYTES_SIZE)):
        raise UsageError(f"bytes are {BYTES_SIZE} ids, and no text is changed", remedy="give nothing else")
    words = [token for token in extra if not token.strip() or token.isalnum()]
    if words:
        raise UsageError(f"special token {words[0]!r} is a word of the text", remedy="put it in brackets")
    low = worn.lower if lower is None else lower
    return Plan(
        family=worn, method=chosen, size=size, lower=low, strip_accents=low if strip_accents is None else strip_accents,
        min_count=min_count, unused=unused, extra=tuple(extra),
    )  # fmt: skip


def _from_words(corpus: Sequence[str], plan: Plan) -> Tokenizer:
    """A vocabulary that the ``tokenizers`` library holds, as BERT's and GPT-2's are."""
    family = plan.family
    last = [*family.last, *plan.extra]
    backend = _learned(corpus, plan, plan.size - len(last))
    declared = Declared().with_defaults(**family.roles)
    mask = family.roles.get("mask") if family.trims else None
    for token in (*plan.first, *last):
        add_tokens(backend, [Added(content=token, strip_left=token == mask)], "training")
    lookup = backend.get_vocab()
    entries = {role: lookup[token] for role, token in family.roles.items()}
    wrapper = Wrapper()
    if family.single:
        single, pair = (
            [(entries.get(what, what), segment) for what, segment in one] for one in (family.single, family.pair)
        )
        wrapper = Wrapper.of(single, pair)
    if family.trims:
        sep, cls = ((family.roles[role], entries[role]) for role in ("sep", "cls"))
        backend.post_processor = processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=False)
    else:
        _put_around(backend, wrapper)
    settings: dict[str, object] = {"tokenizer_class": family.class_name}
    if plan.method.startswith("wordpiece"):
        settings |= {"do_lower_case": plan.lower, "strip_accents": plan.strip_accents}
    return _saved_as(_files(backend, settings, declared.roles, plan.method))


def _learned(corpus: Sequence[str], plan: Plan, size: int) -> tokenizers.Tokenizer:
    if plan.method == "byte-bpe":
        return learning.byte_bpe(corpus, size, plan.first, fold=plan.fold, min_count=plan.min_count)
    if plan.family.words:
        return learning.word_bpe(
            corpus, size, plan.first, lower=plan.lower, strip_accents=plan.strip_accents, min_count=plan.min_count
        )
    rule = learning.by_likelihood if plan.method == "wordpiece" else learning.by_frequency
    return learning.wordpiece(
        corpus,
        size,
        plan.first,
        lower=plan.lower,
        strip_accents=plan.strip_accents,
        min_count=plan.min_count,
        rule=rule,
    )


def _from_pieces(corpus: Sequence[str], plan: Plan) -> Tokenizer:
    """A vocabulary that a SentencePiece model holds, as T5's and LLaMA's are."""
    dialect = plan.family.dialect
    assert dialect is not None
    folding = {"do_lower_case": plan.lower, "keep_accents": not plan.strip_accents} if dialect.clean else {}
    asked = Declared(settings=folding, added={token: Added(content=token) for token in plan.extra})
    fold = plan.fold
    size = plan.size - _ids_around(plan, asked)
    if size < 1:
        raise UsageError(f"vocab_size {plan.size} is less than the special tokens of {plan.family.name}")
    model = PieceModel(
        learning.sentencepiece_model(corpus, size, plan.method, fold, plan.family.options), plan.family.model_file
    )
    engine, wrapper, declared = build(model, dialect, asked)
    backend = backend_of(model, engine, declared)
    if fold and not dialect.clean:
        backend.normalizer = normalizers.Sequence([*fold, backend.normalizer])
    special = [engine.names[id] for id in sorted(engine.special_ids)]
    added = [replace(declared.added.get(name, Added(content=name)), id=engine.lookup[name]) for name in special]
    add_tokens(backend, added, "training")
    _put_around(backend, wrapper)
    settings: dict[str, object] = {
        "tokenizer_class": plan.family.class_name,
        "padding_side": dialect.padding_side,
        "pad_token_type_id": dialect.pad_type_id,
        **folding,
    }
    files = _files(backend, settings, declared.roles, plan.method)
    if not fold or dialect.clean:  # a model cannot say that case or accents were folded before it
        files[plan.family.model_file] = model.data
    return _saved_as(files)


def _ids_around(plan: Plan, asked: Declared) -> int:
    """How many ids a family has beside those of its model: told by a model of next to nothing."""
    dialect = plan.family.dialect
    assert dialect is not None
    tiny = PieceModel(
        learning.sentencepiece_model(["a b c"], 400, plan.method, [], plan.family.options), plan.family.model_file
    )
    engine, _, _ = build(tiny, dialect, asked)
    return len(engine.names) - tiny.size


def _put_around(backend: tokenizers.Tokenizer, wrapper: Wrapper) -> None:
    names = {id: token for token, id in backend.get_vocab().items()}
    around = template(wrapper, names)
    if around is not None:
        backend.post_processor = around


def _files(
    backend: tokenizers.Tokenizer, settings: Mapping[str, object], roles: Mapping[str, str], method: Method
) -> dict[str, bytes]:
    """The files of a published directory: ``tokenizer.json``, its side files, and the forms that came before it."""
    document = backend.to_str(pretty=False)
    special = {f"{role}_token": token for role, token in roles.items()}
    files = {
        "tokenizer.json": document.encode(),
        "tokenizer_config.json": _json({**settings, **special}),
        "special_tokens_map.json": _json(special),
    }
    vocab = backend.get_vocab()
    ordered = sorted(vocab, key=vocab.__getitem__)
    if method.startswith("wordpiece"):
        files["vocab.txt"] = "".join(f"{token}\n" for token in ordered).encode()
    elif method == "byte-bpe" and backend.normalizer is None:
        merges = json.loads(document)["model"]["merges"]
        files["vocab.json"] = json.dumps({token: vocab[token] for token in ordered}, ensure_ascii=False).encode()
        files["merges.txt"] = "".join(["#version: 0.2\n", *(f"{left} {right}\n" for left, right in merges)]).encode()
    return files


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _saved_as(files: Mapping[str, bytes]) -> Tokenizer:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        return load_tokenizer(Path(folder))


def _checked(texts: Iterable[str]) -> Iterable[str]:
    for row, text in enumerate(texts):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UsageError(f"lone surrogate at position {error.start} is not text", where=f"text {row}") from None
        yield text


def train_wordpiece(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lower: bool = True,
    strip_accents: bool | None = None,
    min_count: int = 1,
) -> Tokenizer:
    """BERT's WordPiece, learned by the likelihood rule of its paper; arguments as for :func:`train`."""
    return train(texts, vocab_size, method="wordpiece", lower=lower, strip_accents=strip_accents, min_count=min_count)


def train_wordpiece_by_frequency(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lower: bool = True,
    strip_accents: bool | None = None,
) -> Tokenizer:
    """BERT's WordPiece, learned by merging the most *frequent* pairs; arguments as for :func:`train`."""
    return train(texts, vocab_size, method="wordpiece-by-frequency", lower=lower, strip_accents=strip_accents)


def train_byte_level_bpe(texts: Iterable[str], vocab_size: int, specials: Sequence[str] = ()) -> Tokenizer:
    """GPT-2's byte-level BPE, learned from texts, with special tokens of one's own.

    Args:
        texts: the corpus, in any pieces.
        vocab_size: ids in all, specials and the 256 bytes included; fewer if the corpus has no more pairs to merge.
        specials: tokens that no text produces; they get the first ids, and the first one is the end of text.

    Raises:
        UsageError: the size does not hold the bytes and the specials.
    """
    backend = learning.byte_bpe(list(_checked(texts)), vocab_size, specials, fold=[], min_count=0)
    for token in specials:
        add_tokens(backend, [Added(content=token)], "training")
    roles = dict.fromkeys(("bos", "eos"), specials[0]) if specials else {}
    return _saved_as(_files(backend, {"tokenizer_class": "PreTrainedTokenizerFast"}, roles, "byte-bpe"))
