"""Texts as a model gets them: how long they are, what is cut, what it has no token for; and their languages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from variorum.tasks.audit.findings import Finding, Severity, Sheet
from variorum.tasks.language import NONE, slices

if TYPE_CHECKING:
    from variorum.text import Tokenizer

CUT_OFTEN, CUT_SOMETIMES = 0.25, 0.05
"""Shares of rows that are cut which are serious, and worth a look."""
UNKNOWN = 0.02
"""Share of a language's tokens that are unknown from which on that matters."""
TORN = 3.0
"""Tokens a word from which on a tokenizer does not know a language."""
FEWEST = 20
"""Rows of a language that figures are given for."""
BATCH = 1024


def check_empty(sheet: Sheet) -> tuple[dict[str, object], list[Finding]]:
    """Rows without a text or without a label."""
    no_text = [i for i, text in enumerate(sheet.texts) if not text.strip()]
    no_label = [i for i, label in enumerate(sheet.labels) if not label.strip()]
    findings = []
    for places, what in ((no_text, "no text"), (no_label, "no label")):
        if places:
            severity = Severity.SERIOUS if len(places) >= 0.05 * len(sheet) else Severity.LOOK
            findings.append(sheet.found("empty", severity, what, places))
    return {"empty_texts": len(no_text), "empty_labels": len(no_label)}, findings


def check_languages(sheet: Sheet) -> tuple[dict[str, object], list[Finding], list[str]]:
    """Languages of the texts; also a name for each row, which other checks group by."""
    names = slices(sheet.texts)
    counts = Counter(names)
    usual = counts.most_common(1)[0][0]
    others = [i for i, name in enumerate(names) if name not in (usual, NONE)]
    told = ", ".join(f"{name} ({count})" for name, count in counts.most_common(6) if name not in (usual, NONE))
    findings = []
    if others:
        severity = Severity.LOOK if len(others) >= 0.05 * len(sheet) else Severity.NOTE
        findings.append(sheet.found("languages", severity, f"not in {usual}: {told}", others))
    return {"languages": dict(counts.most_common())}, findings, names


def check_lengths(sheet: Sheet) -> tuple[dict[str, object], list[Finding]]:
    """Words a text."""
    return {"words": _spread([len(text.split()) for text in sheet.texts])}, []


def check_tokens(
    sheet: Sheet, languages: Sequence[str], tokenizer: Tokenizer, limit: int | None
) -> tuple[dict[str, object], list[Finding]]:
    """Lengths against the limit, unknown tokens and tokens a word, by language.

    Args:
        languages: of each row.
        limit: tokens that the model takes, those around a text included; none if absent.
    """
    counted = [_counted(encoding, tokenizer.unk_id) for begin in range(0, len(sheet), BATCH)
               for encoding in tokenizer.encode_batch(list(sheet.texts[begin : begin + BATCH]))]  # fmt: skip
    lengths = [length for length, _, _ in counted]
    cut = [] if limit is None else [i for i, length in enumerate(lengths) if length > limit]
    findings = []
    if cut and len(cut) >= CUT_SOMETIMES * len(sheet):
        severity = Severity.SERIOUS if len(cut) >= CUT_OFTEN * len(sheet) else Severity.LOOK
        lost = sum(lengths[i] - (limit or 0) for i in cut) / max(1, sum(lengths))
        words = f"longer than the {limit:,} tokens that the model takes; cutting loses {lost:.0%} of all tokens"
        findings.append(sheet.found("lengths", severity, words, cut))
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(languages):
        rows[name].append(place)
    by_language = {}
    for name, places in sorted(rows.items(), key=lambda pair: -len(pair[1])):
        if len(places) < FEWEST and len(rows) > 1:
            continue
        pieces, unknown = (sum(counted[i][column] for i in places) for column in (1, 2))
        spaced = sum(len(sheet.texts[i].split()) for i in places)
        found = {"rows": len(places), "unknown": unknown / max(1, pieces), "tokens_a_word": pieces / max(1, spaced)}
        by_language[name] = found
        if found["unknown"] >= UNKNOWN or (found["tokens_a_word"] >= TORN and name != NONE):
            what = f"{name}: {found['unknown']:.1%} unknown tokens, {found['tokens_a_word']:.1f} tokens a word"
            findings.append(sheet.found("tokens", Severity.LOOK, what, places))
    figures: dict[str, object] = {
        "tokens": _spread(lengths),
        "limit": limit,
        "cut": len(cut),
        "by_language": by_language,
    }
    return figures, findings


def _counted(encoding: object, unknown: int | None) -> tuple[int, int, int]:
    """All tokens, those of the text itself, and the unknown ones."""
    ids, special = encoding.ids, encoding.special_mask  # type: ignore[attr-defined]
    return len(ids), len(ids) - sum(special), 0 if unknown is None else ids.count(unknown)


def _spread(lengths: Sequence[int]) -> dict[str, int]:
    """Half of them, nine of ten and 99 of 100 are at most so long."""
    half, most, nearly = np.quantile(lengths, (0.5, 0.9, 0.99), method="inverted_cdf").tolist()
    return {"half": int(half), "most": int(most), "nearly_all": int(nearly), "longest": int(max(lengths))}
