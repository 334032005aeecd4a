"""What gives a label away and will not be there when it matters: its own name in the text, a word, another column."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from variorum.tasks.audit.findings import Finding, Severity, Sheet

SURE = 0.98
"""Share of rows that a column tells rightly, or of rows with a word that have its class, from which on it is a leak."""
COMMON = 0.2
"""Share of a class's rows that a word must stand in."""
FEWEST = 20
"""Rows that a word must stand in."""
NAMED = 0.3
"""Share of a class's rows in which its own name must stand."""
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")


def check(sheet: Sheet, others: Mapping[str, Sequence[str]]) -> tuple[dict[str, object], list[Finding]]:
    """Leaks through the text and through the other columns of the table."""
    if len(set(sheet.labels)) < 2:
        return {}, []
    findings = [*_words(sheet)]
    for name, cells in others.items():
        findings += _column(sheet, name, cells)
    return {}, findings


def _words(sheet: Sheet) -> list[Finding]:
    """Words that are in many rows of one class and in hardly any of another."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(sheet.texts):
        for word in set(_WORD.findall(text.lower())):
            places[word].append(place)
    sizes = Counter(sheet.labels)
    findings = []
    for word, held in places.items():
        if len(held) < FEWEST:
            continue
        label, count = Counter(sheet.labels[i] for i in held).most_common(1)[0]
        sure, share = count / len(held), count / sizes[label]
        if 1 - sure > (1 - sizes[label] / len(sheet)) / 10:  # hardly surer than whoever says that every row is of it
            continue
        named = word in _WORD.findall(label.lower())
        words = f"{word!r} stands in {share:.0%} of the rows that are {label!r}, and {sure:.0%} of rows with it are"
        if named and share >= NAMED and sure >= SURE:
            findings.append(sheet.found("leaks", Severity.SERIOUS, f"the label's own name: {words}", held))
        elif not named and share >= COMMON and sure >= SURE:
            findings.append(sheet.found("leaks", Severity.LOOK, words, held))
    return sorted(findings, key=lambda one: -one.rows)[:5]


def _column(sheet: Sheet, name: str, cells: Sequence[str]) -> list[Finding]:
    """Whether a column tells the label: by its values, by what stands around its numbers, or by their order."""
    usual = Counter(sheet.labels).most_common(1)[0][1] / len(sheet)
    everything = range(len(sheet))
    findings = []
    for way, values in (("its values tell", cells), ("what surrounds its numbers tells", _without_numbers(cells))):
        if len(set(values)) > len(sheet) / 2:
            continue
        right = _told(values, sheet.labels)
        if right >= SURE and right > usual + (1 - usual) / 2:
            words = f"column {name!r}: {way} {right:.1%} of the labels rightly"
            return [sheet.found("leaks", Severity.SERIOUS, words, everything)]
    if len(set(cells)) == len(cells) and len(cells) >= FEWEST:
        order = sorted(everything, key=lambda i: [int(one[:18]) for one in _NUMBER.findall(cells[i])])
        alike = sum(sheet.labels[a] == sheet.labels[b] for a, b in pairwise(order))
        same = alike / (len(sheet) - 1)
        if same >= SURE and same > usual + (1 - usual) / 2:
            words = f"column {name!r}: in its order {same:.1%} of neighbours have the same label"
            findings.append(sheet.found("leaks", Severity.LOOK, words, everything))
    return findings


def _without_numbers(cells: Sequence[str]) -> list[str]:
    return [_NUMBER.sub("0", cell) for cell in cells]


def _told(values: Sequence[str], labels: Sequence[str]) -> float:
    """Share of rows that the other rows with the same value tell rightly, by their commonest label."""
    held: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for value, label in zip(values, labels, strict=True):
        held[value][label] += 1
    right = 0
    for value, label in zip(values, labels, strict=True):
        counts = held[value]
        # Without the row itself: its class must still be ahead of every other.
        right += counts[label] - 1 > max((count for name, count in counts.items() if name != label), default=0)
    return right / len(labels)


def check_ids(sheet: Sheet, others: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Columns that name rows, and name some of them alike."""
    findings = []
    for name, cells in others.items():
        counts = Counter(cells)
        doubled = [i for i, cell in enumerate(cells) if counts[cell] > 1]
        if doubled and (name.lower() in ("id", "uid", "uuid", "key") or len(counts) >= 0.99 * len(cells)):
            findings.append(sheet.found("ids", Severity.LOOK, f"column {name!r} names several rows alike", doubled))
    return findings
