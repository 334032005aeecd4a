"""``variorum embed``: a vector for each text, printed or written to a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import Column, chosen, emit, say
from variorum.cli.reading import Option
from variorum.cli.texts import texts_of
from variorum.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

ENDINGS = (".npy", ".jsonl")
SHOWN = 4


def command(
    model: str,
    *,
    text: Annotated[tuple[str, ...], Option(many=True)] = (),
    file: Path | None = None,
    column: str = "text",
    out: Path | None = None,
    batch_size: int | None = None,
    prompt: str | None = None,
    loading: Loading = PLAIN,
) -> None:
    """A vector for each text, pooled as the checkpoint says; the mean of its tokens and of length 1 otherwise.

    Texts come from --text, from --file, or one a line from stdin.

    Args:
        model: A directory, a spec's name, or org/name in the cache.
        text: One text, or several.
        file: A .txt with one text a line, or a .csv, .tsv or .jsonl with a column of texts.
        column: The column of a .csv, .tsv or .jsonl that holds the texts.
        out: Where vectors go: .npy (float32, a row a text) or .jsonl (text and vector); to stdout if absent.
        batch_size: Texts at a time; as many as keep the processor busy if absent.
        prompt: The name of what is put before each text, where the checkpoint has such: query, passage.
    """
    if out is not None and out.suffix not in ENDINGS:
        raise UsageError("is neither .npy nor .jsonl", where=str(out), remedy="give --out one of these endings")
    if batch_size is not None and batch_size < 1:
        raise UsageError(f"--batch-size {batch_size} holds no text", remedy="give 1 or more")
    texts = texts_of(text, file, column)
    from variorum.cli.loading import load
    from variorum.inference.vectors import embed

    vectors, cut = embed(load(model, loading), texts, batch_size=batch_size, prompt=prompt)
    rows = vectors.float().cpu().numpy()
    if cut:
        say(f"{cut:,} of {len(texts):,} texts are longer than the model takes; of these the beginning was read")
    if out is not None:
        _write(out, texts, rows)
        emit({"file": str(out), "texts": len(texts), "width": int(rows.shape[1]), "cut": cut})
        return
    if chosen() == "human":
        table = [{"text": one, "begins": _begins(row), "width": len(row)} for one, row in zip(texts, rows, strict=True)]
        emit(table, columns=[Column("text"), Column("begins", "vector begins"), Column("width")])
    else:
        emit([{"text": one, "vector": row} for one, row in zip(texts, rows, strict=True)])


def _begins(row: np.ndarray) -> str:
    return " ".join(f"{value:+.4f}" for value in row[:SHOWN])


def _write(out: Path, texts: list[str], rows: np.ndarray) -> None:
    """The whole file, or none."""
    import numpy as np

    partial = out.with_name(f".{out.name}.part-{os.getpid()}")
    try:
        with partial.open("wb") as stream:
            if out.suffix == ".npy":
                np.save(stream, rows, allow_pickle=False)
            else:
                for text, row in zip(texts, rows, strict=True):
                    line = {"text": text, "vector": [float(value) for value in row]}
                    stream.write((json.dumps(line, ensure_ascii=False) + "\n").encode())
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
