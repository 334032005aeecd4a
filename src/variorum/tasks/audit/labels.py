"""Labels: how many rows each has, and which of them are probably wrong.

A label is suspected where a simple model that never saw the row is far surer of another class. To ask besides that it
be as sure as it usually is of rows of that class (confident learning: Northcutt et al. 2021) would lose more of the
wrong labels than it would spare of the right ones. A second model, of vectors instead of words, sees other mistakes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from variorum.tasks.audit.findings import Finding, Severity, Sheet
from variorum.tasks.metrics.classes import balance

if TYPE_CHECKING:
    from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], "NDArray[np.float64]"]
"""Vectors of texts, [N, D]."""
FOLDS = 4
FEW = 20
"""Rows of a class below which its figures mean little."""
UNEVEN = 10
"""How often the largest class has the rows of the smallest from which on that matters."""
MARGIN = 0.5
"""By which another class must be more probable than the one given."""
WORDS = 30_000
"""Of the most frequent words and pairs of them, that the simple model looks at."""
WEIGHT, VECTOR_WEIGHT = 5.0, 20.0
"""Of the data beside the penalty: for words, and for vectors of length 1."""


def check_balance(sheet: Sheet) -> tuple[dict[str, object], list[Finding]]:
    """Rows of each class."""
    held = balance(sheet.labels)
    findings = []
    everything = range(len(sheet))
    if len(held) == 1:
        findings.append(sheet.found("balance", Severity.SERIOUS, f"every row is {next(iter(held))!r}", everything))
    if len(held) > max(FEW, len(sheet) / 2):
        words = f"{len(held):,} different labels on {len(sheet):,} rows: is this the column of labels?"
        findings.append(sheet.found("balance", Severity.SERIOUS, words, everything))
        return {"classes": len(held)}, findings
    few = {name for name, count in held.items() if count < FEW}
    if few:
        names = ", ".join(f"{name} ({held[name]})" for name in sorted(few)[:5]) + (", …" if len(few) > 5 else "")
        rows = [i for i in everything if sheet.labels[i] in few]
        findings.append(sheet.found("balance", Severity.LOOK, f"classes of fewer than {FEW} rows: {names}", rows))
    ratio = max(held.values()) / min(held.values())
    if ratio >= UNEVEN:
        small = min(held, key=lambda name: held[name])
        rows = [i for i in everything if sheet.labels[i] == small]
        words = f"the largest class has {ratio:,.0f} times the rows of {small!r}"
        findings.append(sheet.found("balance", Severity.LOOK, words, rows))
    return {"classes": len(held), "balance": held}, findings


def suspects(sheet: Sheet, embed: Embed | None = None) -> list[tuple[int, str, float]]:
    """Rows whose label is probably wrong, the surest first: place, the label that fits better, by how much.

    Only classes with enough rows to be told from others are judged; with ``embed`` by words and vectors alike.
    """
    counts = Counter(sheet.labels)
    judged = [i for i, (text, label) in enumerate(zip(sheet.texts, sheet.labels, strict=True))
              if counts[label] >= 2 * FOLDS and text.strip()]  # fmt: skip
    names = sorted({sheet.labels[i] for i in judged})
    if len(names) < 2:
        return []
    texts, given = [sheet.texts[i] for i in judged], np.array([names.index(sheet.labels[i]) for i in judged])
    told = _out_of_fold(_words(texts), given, WEIGHT)
    if embed is not None:
        told = (told + _out_of_fold(embed(texts), given, VECTOR_WEIGHT)) / 2
    rows, better = np.arange(len(judged)), told.argmax(1)
    margin = told[rows, better] - told[rows, given]
    wrong = np.flatnonzero(margin >= MARGIN)
    ranked = wrong[np.argsort(-margin[wrong], kind="stable")]
    return [(judged[i], names[better[i]], float(margin[i])) for i in ranked.tolist()]


def _words(texts: Sequence[str]) -> Any:
    """Words and pairs of them, weighed once: which of them are rare says nothing about a label."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), max_features=WORDS, token_pattern=r"\w+|[^\w\s]")
    return words.fit_transform(texts)


def _out_of_fold(features: Any, labels: NDArray[Any], weight: float) -> NDArray[np.float64]:
    """Probabilities of each row by a model that learned from the others, [N, classes]."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    # Gradients of rare words are small from the start: a coarser tolerance ends before anything is learned.
    learner = LogisticRegression(C=weight, max_iter=100, tol=1e-3)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    found: NDArray[np.float64] = cross_val_predict(learner, features, labels, cv=folds, method="predict_proba")
    return found


def check_suspects(sheet: Sheet, embed: Embed | None = None) -> tuple[dict[str, object], list[Finding]]:
    """Labels that are probably wrong."""
    found = suspects(sheet, embed)
    by_label = Counter((sheet.labels[place], better) for place, better, _ in found)
    names = ", ".join(f"{one} → {other} ({count})" for (one, other), count in by_label.most_common(3))
    rows = [{"line": sheet.lines[place], "label": sheet.labels[place], "rather": better, "by": round(margin, 3)}
            for place, better, margin in found]  # fmt: skip
    words = f"a label that a simple model is sure is wrong: {names}"
    findings = [sheet.found("labels", Severity.LOOK, words, [place for place, *_ in found])] if found else []
    return {"suspected_labels": rows}, findings
