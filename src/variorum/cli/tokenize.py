"""``variorum tokenize``: what a model gets to see of a text, token by token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from variorum.cli.output import Column, chosen, emit, say, table
from variorum.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from variorum.text import Tokenizer
    from variorum.text.inspection import Inspected

NO_MODEL_SIZE = 4000
SHOWN_UNKNOWN = 10


def command(
    text: str | None = None,
    *,
    pair: str | None = None,
    model: str | None = None,
    file: Path | None = None,
    column: str = "text",
    pad_to: int | None = None,
    max_length: int | None = None,
    bare: bool = False,
    special_text: bool = False,
    language: str | None = None,
    task: str | None = None,
    revision: str | None = None,
    download: bool = False,
) -> None:
    """A text, or a pair, as a model gets it: pieces, ids, segments, positions, mask and offsets.

    Below the table: how many tokens a word takes (fertility), and what the vocabulary does not know. Without a text and
    without --file, texts are read from stdin, one a line.

    Args:
        text: The text.
        pair: A second text, for models that read pairs.
        model: A directory, a .gguf file, a spec's name, or org/name in the cache. Without it, a small vocabulary for
            BERT is learned from a shipped novel.
        file: Texts instead of one: a .txt with one a line, or a .csv, .tsv or .jsonl with a column of them.
        column: The column that holds the texts.
        pad_to: Fill up to this many tokens.
        max_length: Cut to this many tokens; the cut is told.
        bare: Without the tokens that the model puts around a text.
        special_text: Read special tokens that are spelt out in the text as such.
        language: The language of the text, where the wrapper has a place for it (mBART: en_XX, Whisper: en).
        task: What Whisper is to do, transcribe or translate.
        revision: A branch, tag or commit, where the model is a repository.
        download: Fetch what the cache lacks; without it nothing touches the network.
    """
    texts = _texts(text, pair, file, column)
    for name, value in (("--pad-to", pad_to), ("--max-length", max_length)):
        if value is not None and value < 1:
            raise UsageError(f"{name} {value} holds no token", remedy="give 1 or more")
    from variorum.text.inspection import inspected, together

    tokenizer = _tokenizer(model, revision, download)
    wanted = {role: name for role, name in (("language", language), ("task", task)) if name is not None}
    if wanted:
        tokenizer = tokenizer.choose(**wanted)
    found = [
        inspected(
            tokenizer, one, pair, specials=not bare, allow_special_text=special_text, max_length=max_length,
            pad_to=pad_to,
        )
        for one in texts
    ]  # fmt: skip
    _remark(found, tokenizer)
    if chosen() != "human":
        emit([_data(one) for one in found])
        return
    whole = together([one.fit for one in found])
    lines = _overview(found) if text is None else _tokens(found[0])
    known = f"{whole.unknown:,} unknown"
    if whole.unknown:
        shown = ", ".join(repr(text) for text in whole.unknown_texts[:SHOWN_UNKNOWN])
        known += f": {shown}{', …' if len(whole.unknown_texts) > SHOWN_UNKNOWN else ''}"
    per_word = "" if whole.fertility is None else f" for {_many(whole.words, 'word')}, {whole.fertility:.2f} a word"
    emit({}, human="\n".join([*lines, "", f"{_many(whole.tokens, 'token')}{per_word}; {known}"]))


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _texts(text: str | None, pair: str | None, file: Path | None, column: str) -> list[str]:
    from variorum.cli.tokens import piped, texts_of

    if file is not None and text is not None:
        raise UsageError("both a text and --file are given", remedy="give one of them")
    if text is None and pair is not None:
        raise UsageError("--pair has no first text", remedy="give the text that it belongs to")
    if text is not None:
        return [text]
    found = piped() if file is None else texts_of(file, column)
    if not found:
        raise UsageError("there is no text", remedy="give one, --file, or a text a line on stdin")
    return found


def _tokenizer(model: str | None, revision: str | None, download: bool) -> Tokenizer:
    if model is not None:
        from variorum.cli.tokens import tokenizer_of

        return tokenizer_of(model, revision=revision, download=download)
    from variorum.text import train_wordpiece_by_frequency
    from variorum.text.corpora import austen
    from variorum.text.readers import paragraphs

    if chosen() == "human":
        say(f"no --model: pieces of a BERT vocabulary of {NO_MODEL_SIZE:,}, learned just now from Austen's Emma")
    return train_wordpiece_by_frequency(paragraphs(austen()["Emma"]), NO_MODEL_SIZE)


def _remark(found: Sequence[Inspected], tokenizer: Tokenizer) -> None:
    """What is cut, and what is longer than the model takes, is never silent."""
    cut = sum(one.cut for one in found)
    if cut:
        of = f"{sum(one.cut > 0 for one in found):,} of {_many(len(found), 'text')}"
        say(f"{_many(cut, 'token')} cut from {of}")
    limit = tokenizer.model_max_length
    longer = sum(sum(token.mask for token in one.tokens) > limit for one in found) if limit else 0
    if longer:
        say(f"longer than the {limit:,} tokens that this model takes: {longer:,} of {_many(len(found), 'text')}")


def _tokens(one: Inspected) -> list[str]:
    columns = ["position", "piece", "id", "segment", "mask", "offsets", "text"]
    rows = [
        {
            "position": token.position,
            "piece": token.piece,
            "id": token.id,
            "segment": token.segment,
            "mask": token.mask,
            "offsets": "" if token.of is None else f"{token.start}–{token.end}",
            "text": token.reads,
        }
        for token in one.tokens
    ]
    return table(rows, [Column(column, show=str if column == "id" else None) for column in columns])


def _overview(found: Sequence[Inspected]) -> list[str]:
    rows = [
        {
            "text": one.text,
            "tokens": one.fit.tokens,
            "words": one.fit.words,
            "fertility": one.fit.fertility,
            "unknown": one.fit.unknown,
            "cut": one.cut,
        }
        for one in found
    ]
    return table(rows, ["tokens", "words", "fertility", "unknown", "cut", "text"])


def _data(one: Inspected) -> dict[str, object]:
    """A text as programs want it: a list for each input of a model, and the fit."""
    tokens = one.tokens
    return {
        "text": one.text,
        "pair": one.pair,
        "pieces": [token.piece for token in tokens],
        "ids": [token.id for token in tokens],
        "segments": [token.segment for token in tokens],
        "positions": [token.position for token in tokens],
        "mask": [token.mask for token in tokens],
        "offsets": [[token.start, token.end] for token in tokens],
        "special": [token.special for token in tokens],
        "of": [token.of for token in tokens],
        "cut": one.cut,
        "tokens": one.fit.tokens,
        "words": one.fit.words,
        "fertility": one.fit.fertility,
        "unknown": one.fit.unknown,
        "unknown_texts": list(one.fit.unknown_texts),
    }
