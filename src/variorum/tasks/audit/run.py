"""Every check on one table, in the order in which a person would want to hear of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variorum.errors import DamagedFile
from variorum.tasks.audit import duplicates, labels, leaks, tokens
from variorum.tasks.audit.findings import Audit, Finding, Severity, Sheet

if TYPE_CHECKING:
    from variorum.tasks.table import Table
    from variorum.text import Tokenizer


@dataclass(frozen=True)
class Columns:
    """The columns that are read; no label where the rows have none."""

    text: str = "text"
    label: str | None = "label"


def audit(
    table: Table, columns: Columns, *, test: Table | None = None, tokenizer: Tokenizer | None = None,
    limit: int | None = None, embed: labels.Embed | None = None,
) -> Audit:  # fmt: skip
    """Look at rows before anything is learned from them.

    Args:
        table: read with no column that must be filled, so that what is empty is found here.
        test: rows that nothing is to be learned from.
        tokenizer: of the model that will be trained, and ``limit`` the tokens that it takes.
        embed: gives vectors of texts, by which more wrong labels are found.

    Raises:
        DamagedFile: not one row can be read.
    """
    sheet, others = _sheet(table, columns)
    found = Audit()
    found.add(*_volume(table, sheet))
    found.add(*tokens.check_empty(sheet))
    whole, others = _whole(sheet, others)
    if not len(whole):
        return found
    if columns.label is not None:
        found.add(*labels.check_balance(whole))
    found.add(*duplicates.check(whole))
    if test is not None:
        found.add(*duplicates.check_splits(whole, _sheet(test, columns)[0]))
    found.add({}, leaks.check_ids(whole, others))
    found.add(*tokens.check_lengths(whole))
    figures, findings, languages = tokens.check_languages(whole)
    found.add(figures, findings)
    if tokenizer is not None:
        found.add(*tokens.check_tokens(whole, languages, tokenizer, limit))
    if columns.label is not None:
        found.add(*leaks.check(whole, others))
        found.add(*labels.check_suspects(whole, embed))
    return found


def _volume(table: Table, sheet: Sheet) -> tuple[dict[str, object], list[Finding]]:
    lines = tuple(row.line for row in table.bad)
    figures: dict[str, object] = {"rows": len(table.rows), "unreadable": len(lines)}
    if not lines:
        return figures, []
    share = len(lines) / len(table.rows)
    severity = Severity.SERIOUS if share >= 0.01 else Severity.LOOK
    what = f"cannot be read; the first: {table.bad[0].error}"
    return figures, [
        Finding(check="unreadable", severity=severity, what=what, rows=len(lines), share=share, lines=lines)
    ]


def _sheet(table: Table, columns: Columns) -> tuple[Sheet, dict[str, Sequence[str]]]:
    good = table.good
    if not good:
        raise DamagedFile("not one row can be read", where=table.where)
    named = [] if columns.label is None else [row.cells[columns.label] for row in good]
    sheet = Sheet([row.cells[columns.text] for row in good], named, [row.line for row in good])
    further = [name for name in table.columns if name not in (columns.text, columns.label)]
    return sheet, {name: [row.cells[name] for row in good] for name in further}


def _whole(sheet: Sheet, others: Mapping[str, Sequence[str]]) -> tuple[Sheet, dict[str, Sequence[str]]]:
    """The rows with a text and a label, which is all that further checks are about."""
    kept = [i for i, text in enumerate(sheet.texts) if text.strip() and (not sheet.labels or sheet.labels[i].strip())]

    def picked(cells: Sequence[str]) -> list[str]:
        return [cells[i] for i in kept] if cells else []

    whole = Sheet(picked(sheet.texts), picked(sheet.labels), [sheet.lines[i] for i in kept])
    return whole, {name: picked(cells) for name, cells in others.items()}
