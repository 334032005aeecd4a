"""``variorum search``: the texts of a file that are nearest in meaning to a query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import Column, emit, say
from variorum.cli.texts import numbered
from variorum.errors import UsageError

if TYPE_CHECKING:
    from variorum.face import Model
    from variorum.tasks.search import Index


def command(
    *query: str,
    model: str,
    file: Path | None = None,
    index: Path | None = None,
    column: str = "text",
    top_k: int = 5,
    loading: Loading = PLAIN,
) -> None:
    """The texts that are nearest to each QUERY, by the cosine of their vectors; exactly, every text compared.

    With --index the vectors of --file are kept there: a later call with the same file reads only what is new in it, and
    one without --file searches what is kept.

    Args:
        query: What to look for; several are several searches.
        model: A directory, a spec's name, or org/name in the cache; what makes the vectors.
        file: A .txt with one text a line, or a .csv, .tsv or .jsonl with a column of texts.
        index: A directory for the vectors, made if it is not there.
        column: The column of a .csv, .tsv or .jsonl that holds the texts.
        top_k: So many texts for each query.
    """
    if not query:
        raise UsageError("there is nothing to look for", remedy="give a QUERY")
    if file is None and (index is None or not index.is_dir()):
        raise UsageError("there is nothing to search", remedy="give --file, or an --index that was made before")
    texts = None if file is None else [row for row in numbered(file, column) if row[1].strip()]
    if texts == []:
        raise UsageError("holds no text", where=str(file), remedy="give a file with texts")
    from variorum.cli.loading import load
    from variorum.tasks.search import questions

    loaded = load(model, loading)
    held = _index(loaded, texts, index)
    hits = held.search(questions(loaded, query), top_k)
    rows = [
        {"query": asked, "rank": rank, "score": hit.score, "line": hit.line, "text": hit.text}
        for asked, found in zip(query, hits, strict=True)
        for rank, hit in enumerate(found, 1)
    ]
    emit(
        rows, columns=[*([Column("query")] if len(query) > 1 else []), Column("score"), Column("line"), Column("text")]
    )


def _index(model: Model, rows: list[tuple[int, str]] | None, place: Path | None) -> Index:
    """What is kept at ``place``, brought up to date with ``rows`` and written back; or an index of these."""
    from variorum.tasks.search import Index

    kept = Index.load(place) if place is not None and place.is_dir() else None
    if rows is None:
        assert kept is not None
        kept.require(model)
        return kept
    lines, texts = zip(*rows, strict=True)
    if kept is None:
        found, cut = Index.of(model, texts, lines)
        if cut:
            say(f"{cut:,} of {len(texts):,} texts are longer than the model takes; of these the beginning was read")
    else:
        found, new = kept.followed(model, texts, lines)
        say(f"{new:,} of {len(texts):,} texts were not in {place} yet")
    if place is not None and (kept is None or (found.texts, found.lines) != (kept.texts, kept.lines)):
        found.save(place)
    return found
