"""``variorum tokenizer``: learn a vocabulary from texts, and say what a tokenizer is made of."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from variorum.cli.output import chosen, emit, say
from variorum.cli.reading import Option, Verbs
from variorum.errors import UsageError

if TYPE_CHECKING:
    from variorum.text import Tokenizer

Kind = Literal["wordpiece", "wordpiece-by-frequency", "byte-bpe", "bpe", "unigram", "bytes"]
SAMPLE = 2_000_000  # characters of the corpus on which the fit is told


def train(
    *,
    out: Path,
    kind: Kind | None = None,
    family: str | None = None,
    vocab: int | None = None,
    file: Annotated[tuple[Path, ...], Option(many=True)] = (),
    austen: bool = False,
    column: str = "text",
    lowercase: bool = False,
    cased: bool = False,
    strip_accents: bool = False,
    keep_accents: bool = False,
    min_count: int = 1,
    unused: int = 0,
    special: Annotated[tuple[str, ...], Option(many=True)] = (),
) -> None:
    """Learn a vocabulary from texts and write it as its family publishes it.

    Kinds: wordpiece merges by likelihood, as its paper says, and takes rare pairs first; --min-count keeps those out
    that are seen less often. wordpiece-by-frequency is what the tokenizers library learns under that name. Then there
    are byte-bpe, bpe, unigram, and bytes (ByT5: nothing to learn).

    Families: bert, roberta, bart, deberta, modernbert, gpt, gpt2, gpt-neox, t5, pegasus, albert, xlnet, xlm-roberta,
    mbart, deberta-v3, llama, gemma, byt5. The kind follows from the family, or the family from the kind.

    Args:
        out: The directory to write; it must not exist, or be empty.
        kind: How pieces are learned.
        family: Whose special tokens, wrapper and files the vocabulary gets.
        vocab: Ids in all, special tokens included.
        file: Texts: .txt, or a .csv, .tsv or .jsonl with a column of texts; any of them may end in .gz.
        austen: Learn from the six novels that are shipped, beside any files.
        column: The column that holds the texts.
        lowercase: Lower-case texts.
        cased: Keep capitals.
        strip_accents: Drop accents; without a choice this follows the case.
        keep_accents: Keep accents.
        min_count: Pairs of pieces that occur less often are not merged.
        unused: Places for later tokens after BERT's first; 99 gives its published ids (100 to 103).
        special: Further special tokens.
    """
    lower = _switch(lowercase, cased, "--lowercase", "--cased")
    strip = _switch(strip_accents, keep_accents, "--strip-accents", "--keep-accents")
    _check_free(out)
    from variorum.text.inspection import fit
    from variorum.text.train import planned
    from variorum.text.train import train as learn

    plan = planned(vocab or 0, kind, family, lower, strip, min_count, unused, special)
    if plan.method == "bytes" and (file or austen):
        raise UsageError("bytes learn nothing from texts", remedy="leave --file and --austen out")
    corpus = [] if plan.method == "bytes" else _corpus(file, austen, column)
    if vocab is None and plan.method != "bytes":
        raise UsageError("no size is given", remedy="give --vocab")
    begin = time.perf_counter()
    tokenizer = learn(
        corpus, vocab or 0, method=plan.method, family=plan.family.name, lower=lower, strip_accents=strip,
        min_count=min_count, unused=unused, extra=special,
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    _write(tokenizer, out)
    if vocab is not None and tokenizer.vocab_size < vocab:
        say(f"{tokenizer.vocab_size:,} ids, not {vocab:,}: the texts have no more pairs to learn")
    found = fit(tokenizer, _sample(corpus))
    emit(
        {
            "directory": str(out),
            "kind": plan.method,
            "family": plan.family.name,
            "vocab": tokenizer.vocab_size,
            "lowercase": plan.lower,
            "strip_accents": plan.strip_accents,
            "characters": sum(map(len, corpus)),
            "fertility": found.fertility,
            "unknown": found.unknown,
            "seconds": round(seconds, 3),
            "files": sorted(tokenizer.files),
        }
    )


def info(model: str, *, revision: str | None = None, download: bool = False) -> None:
    """What a tokenizer is made of: kind, size, special tokens, and what it puts around texts.

    Args:
        model: A directory, a .gguf file, a spec's name, or org/name in the cache.
        revision: A branch, tag or commit, where the model is a repository.
        download: Fetch what the cache lacks; without it nothing touches the network.
    """
    from variorum.cli.tokens import tokenizer_of

    found = tokenizer_of(model, revision=revision, download=download)
    row = {
        "kind": found.kind.replace("_", "-"),
        "vocab": found.vocab_size,
        "special": {role: {"token": token, "id": found.special_id(role)} for role, token in found.special.items()},
        "special_tokens": len(found.special_ids),
        "one_text": _wrapped(found, 1),
        "a_pair": _wrapped(found, 2),
        "padding_side": found.padding_side,
        "truncation_side": found.truncation_side,
        "longest_input": found.model_max_length,
        "choices": {role: list(known) for role, known in found.choices.items()},
        "files": sorted(found.files),
    }
    if chosen() != "human":
        emit(row)
        return
    special = [f"{role} {token} {found.special_id(role)}" for role, token in found.special.items()]
    choices = [f"{role}: {' '.join(known)}" for role, known in found.choices.items()]
    emit(row | {"special": ", ".join(special), "choices": "; ".join(choices)})


def _wrapped(tokenizer: Tokenizer, texts: int) -> str:
    """The wrapper as text, as in ``[CLS] A [SEP] B:1 [SEP]:1``; the number is the segment."""
    words = []
    for slot in tokenizer.wrapper.slots(texts):
        word = "AB"[slot.sequence] if slot.sequence is not None else f"({slot.role})"
        if slot.id is not None:
            word = tokenizer.id_to_token(slot.id)
        words.append(f"{word}:{slot.type_id}" if slot.type_id else word)
    return " ".join(words)


def _switch(on: bool, off: bool, name: str, other: str) -> bool | None:
    if on and off:
        raise UsageError(f"both {name} and {other} are given", remedy="give one of them")
    return True if on else False if off else None


def _corpus(files: tuple[Path, ...], austen: bool, column: str) -> list[str]:
    from variorum.cli.tokens import corpus_of, stretches

    shipped: list[str] = []
    if austen:
        from variorum.text.corpora import austen as novels

        shipped = [part for text in novels().values() for part in stretches(text)]
    return shipped + corpus_of(files, column) if files or not austen else shipped


def _sample(corpus: list[str]) -> list[str]:
    """The corpus, or its beginning."""
    taken, length = [], 0
    for text in corpus:
        if length >= SAMPLE:
            break
        taken.append(text)
        length += len(text)
    return taken


def _check_free(out: Path) -> None:
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError("is there already", where=str(out), remedy="name a directory that does not exist")


def _write(tokenizer: Tokenizer, out: Path) -> None:
    """The whole directory, or none."""
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.part-{os.getpid()}")
    try:
        tokenizer.save(partial)
        partial.replace(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


command = Verbs("Learn a vocabulary from texts, or say what a tokenizer is made of.", {"train": train, "info": info})
