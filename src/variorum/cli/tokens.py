"""What the verbs on tokenizers share: a tokenizer from a reference, and texts from wherever a user has them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from variorum.errors import DamagedFile, NotFound, UsageError

if TYPE_CHECKING:
    from variorum.text import Tokenizer

ROWS = {".csv", ".tsv", ".jsonl", ".ndjson"}


def tokenizer_of(reference: str, *, revision: str | None = None, download: bool = False) -> Tokenizer:
    """The tokenizer of a model reference: no config and no weights need to be there.

    Raises:
        NotFound: no such model, or it has no tokenizer. DamagedFile, AccessError: files that cannot be read as one.
    """
    from variorum.hub import locate, spec_named

    spec = spec_named(reference)
    if spec is not None and spec.tokenizer.kind == "bytes":
        from variorum.text import byte_tokenizer

        return byte_tokenizer()
    place = locate(reference, revision=revision, download=download)
    if place.is_dir():
        from variorum.text import load_tokenizer

        return load_tokenizer(place)
    from variorum.checkpoint.source import open_source

    tokenizer: Tokenizer | None = open_source(place).tokenizer()
    if tokenizer is None:
        raise NotFound("has no tokenizer", where=str(place))
    return tokenizer


def texts_of(file: Path, column: str) -> list[str]:
    """A text a line, or a text a row, in order.

    Raises:
        NotFound: no such file or column. DamagedFile: not text, or a row that is no row.
    """
    from variorum.text.readers import read_table, read_text

    if not ROWS & set(file.suffixes):
        return read_text(file).removesuffix("\n").split("\n")
    table = read_table(file, required=[column])
    if table.bad:
        first = table.bad[0]
        raise DamagedFile(
            f"{len(table.bad)} bad rows, the first: {first.reason}",
            where=f"{file}, line {first.line}",
            remedy="mend them",
        )
    return table.column(column)


def piped() -> list[str]:
    """A text a line from stdin; nothing where it is a terminal.

    Raises:
        UsageError: it is not UTF-8.
    """
    if sys.stdin is None or sys.stdin.isatty():
        return []
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"is not UTF-8 at byte {error.start}", where="stdin", remedy="convert it to UTF-8") from None
    return text.removesuffix("\n").split("\n") if text else []


def corpus_of(files: Sequence[Path], column: str) -> list[str]:
    """Texts to learn from: stretches of some thousand lines of each file, line ends kept, or the cells of a column.

    Raises:
        UsageError: no file. Further kinds as :func:`texts_of`.
    """
    from variorum.text.readers import read_text

    if not files:
        raise UsageError("there is nothing to learn from", remedy="give --file, or --austen for the shipped novels")
    corpus: list[str] = []
    for file in files:
        corpus += texts_of(file, column) if ROWS & set(file.suffixes) else stretches(read_text(file))
    return corpus


def stretches(text: str, lines: int = 1000) -> list[str]:
    """A long text in parts that end where a line ends."""
    whole = text.splitlines(keepends=True) if "\n" in text else [text]
    return ["".join(whole[place : place + lines]) for place in range(0, len(whole), lines)]
