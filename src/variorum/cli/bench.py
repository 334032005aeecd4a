"""``variorum bench``: how fast a model is on this machine and on the user's own texts, and what memory it takes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import Column, emit, table
from variorum.cli.reading import Option
from variorum.cli.specs import in_bytes
from variorum.errors import UsageError

SHIPPED = 64


def command(
    model: str, *, text: Annotated[tuple[str, ...], Option(many=True)] = (), file: Path | None = None,
    column: str = "text", new_tokens: int = 32, rounds: int = 3, loading: Loading = PLAIN,
) -> None:  # fmt: skip
    """Time of one text, texts and tokens a second, memory, loading; of a writer its first token and its pace.

    Texts come from --text or --file; without either, 64 rated snippets that ship with variorum are read.

    Args:
        model: A directory, a GGUF file, a spec's name, or org/name in the cache.
        text: One text, or several.
        file: A .txt with one text a line, or a .csv, .tsv or .jsonl with a column of texts.
        column: The column of a .csv, .tsv or .jsonl that holds the texts.
        new_tokens: A writer continues each text by so many.
        rounds: Passes over all texts.
    """
    if new_tokens < 1 or rounds < 1:
        raise UsageError("nothing is measured in less than one token and one pass", remedy="give 1 or more")
    texts = _texts(text, file, column)
    from variorum.cli.loading import load
    from variorum.inference.speed import Effort, speed

    found = speed(lambda: load(model, loading), texts, Effort(rounds=rounds, new_tokens=new_tokens))
    rows = [dataclasses.asdict(one) for one in found]
    shown = [{**row, "value": _said(float(row["value"]), row["unit"])} for row in rows]
    import torch

    held = loading.dtype if loading.weights is None else f"{loading.weights} weights, prepared"
    count = "1 text" if len(texts) == 1 else f"{len(texts):,} texts"
    note = f"{count}, {held}, on {loading.device} with {torch.get_num_threads()} threads"
    emit(rows, human="\n".join([*table(shown, ["figure", Column("value", "")]), "", note]))


def _texts(text: tuple[str, ...], file: Path | None, column: str) -> list[str]:
    if text or file is not None:
        from variorum.cli.texts import texts_of

        return [one for one in texts_of(text, file, column) if one]
    from variorum.text.corpora import sentiment

    return [one.text for one in sentiment()[:SHIPPED]]


def _said(value: float, unit: str) -> str:
    if unit == "bytes":
        return in_bytes(value)
    if unit == "seconds":
        return f"{1000 * value:,.4g} ms"
    return f"{value:,.4g} {unit}"
