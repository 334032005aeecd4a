"""``variorum audit``: what is wrong with labelled rows, before a model learns it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variorum.cli.output import Column, chosen, emit, pairs, say, table
from variorum.cli.rows import Data, Labels, Texts
from variorum.errors import CheckFailed

if TYPE_CHECKING:
    from variorum.tasks.audit import Audit
    from variorum.tasks.audit.labels import Embed
    from variorum.text import Tokenizer


def command(
    data: Data, *, text_column: Texts = "text", label_column: Labels = "label", no_labels: bool = False,
    test: str | None = None, model: str | None = None, vectors: str | None = None, strict: bool = False,
) -> None:  # fmt: skip
    """Balance, copies, contradictions, leaks, lengths, languages, and labels that are probably wrong.

    Args:
        no_labels: Look at texts alone.
        test: Rows that nothing is to be learned from: which of them are among the others?
        model: The model that is to learn: how its tokenizer takes the texts, and what it cuts.
        vectors: An encoder of sentences: it reads every text, and more wrong labels are found.
        strict: Exit with 6 if something serious is found.
    """
    from variorum.tasks.audit import Columns, audit
    from variorum.tasks.table import read

    columns = Columns(text_column, None if no_labels else label_column)
    needed = [name for name in (columns.text, columns.label) if name is not None]
    tokenizer, limit = (None, None) if model is None else _reader(model)
    rows = read(data, needed, filled=())
    tested = None if test is None else read(test, needed, filled=())
    embed = None if vectors is None else _embed(vectors)
    found = audit(rows, columns, test=tested, tokenizer=tokenizer, limit=limit, embed=embed)
    emit(
        {"figures": found.figures, "findings": found.findings, "serious": len(found.serious)},
        human=_page(found) if chosen() == "human" else None,
    )
    if strict and found.serious:
        first = found.serious[0]
        raise CheckFailed(f"{len(found.serious)} serious findings, the first: {first.what}", where=data)
    if not found.findings:
        say("nothing was found")


def _reader(model: str) -> tuple[Tokenizer, int | None]:
    """The tokenizer of a model, and how many tokens the model takes."""
    from variorum.cli.specs import resolve
    from variorum.cli.tokens import tokenizer_of
    from variorum.spec.size import longest

    tokenizer = tokenizer_of(model)
    return tokenizer, min((one for one in (tokenizer.model_max_length, longest(resolve(model))) if one), default=None)


def _embed(reference: str) -> Embed:
    """What gives texts their vectors, of length 1."""
    from variorum.cli.loading import PLAIN, load
    from variorum.inference.vectors import embed

    model = load(reference, PLAIN)
    return lambda texts: embed(model, texts)[0].double().cpu().numpy()


def _page(found: Audit) -> str:
    """Figures, one a line, and below them the findings."""
    figures = {name: value for name, value in found.figures.items() if name not in ("suspected_labels", "by_language")}
    flat = {name: _flat(value) if isinstance(value, dict) else value for name, value in figures.items()}
    columns = [Column("severity"), Column("check"), Column("rows"), Column("share", show=lambda x: f"{x:.1%}"),
               Column("what"), Column("first", "lines")]  # fmt: skip
    rows = [{"severity": one.severity.value, "check": one.check, "rows": one.rows, "share": one.share,
             "what": one.what, "first": one.first} for one in found.findings]  # fmt: skip
    return "\n".join([*pairs(flat), "", *(table(rows, columns) if rows else ["nothing was found"])])


def _flat(value: dict[str, object]) -> str:
    shown = [f"{name.replace('_', ' ')} {count:,}" for name, count in list(value.items())[:8]]
    return ", ".join(shown) + (", …" if len(value) > 8 else "")
