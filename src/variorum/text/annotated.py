"""Rows of files as annotators leave them: CoNLL's sentences, a word a line, and SQuAD's questions, article by article.

Both become rows as other files have them. A sentence or question that is damaged keeps its place and says why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..errors import DamagedFile

WORDS, TAGS = "words", "tags"
QUESTION = ("id", "question", "context", "answer")
DOCUMENT = "-DOCSTART-"


class Entry(NamedTuple):
    """A sentence or a question: where it begins, its cells, or else the line of the damage and what it is."""

    line: int
    cells: dict[str, str]
    reason: str = ""


def conll(text: str, where: str) -> tuple[tuple[str, ...], list[Entry]]:
    """Sentences of a CoNLL file: blank lines between, columns between tabs or blanks, as many as in its first word.

    The first column is ``words`` and the last one ``tags``; those between are named by their number. A cell holds the
    sentence's words or tags with blanks between them, or as JSON where one has a blank inside.

    Raises:
        DamagedFile: no word is there.
    """
    columns: tuple[str, ...] = ()
    found: list[Entry] = []
    for begun, lines in _blocks(text):
        words = [(begun + i, _columns(line)) for i, line in enumerate(lines)]
        columns = columns or _named(len(words[0][1]))
        odd = next((one for one in words if len(one[1]) != len(columns) or not all(one[1])), None)
        if odd is not None:
            found.append(Entry(odd[0], {}, _damage(odd[1], len(columns))))
            continue
        cells = zip(columns, zip(*(row for _, row in words), strict=True), strict=True)
        found.append(Entry(begun, {name: listed(cell) for name, cell in cells}))
    if not found:
        raise DamagedFile("no word is there", where=where)
    return columns, found


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Lines that follow one another without a blank one or the start of a document, with the number of the first."""
    block: list[str] = []
    number = 0
    for number, line in enumerate([*text.replace("\r\n", "\n").split("\n"), ""], 1):
        if line.strip() and not line.startswith(DOCUMENT):
            block.append(line)
        elif block:
            yield number - len(block), block
            block = []


def _columns(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")] if "\t" in line else re.split(" +", line.strip(" "))


def _named(count: int) -> tuple[str, ...]:
    return (WORDS, *map(str, range(2, count)), TAGS)[:count] if count > 1 else (WORDS,)


def _damage(row: Sequence[str], count: int) -> str:
    if len(row) == count:
        return f"column {row.index('') + 1} is empty"
    return f"{len(row)} column{'s' if len(row) != 1 else ''} where the first word has {count}"


def listed(cells: Sequence[str]) -> str:
    """Words or tags in one cell."""
    spaced = any(not cell or re.search(r"\s", cell) for cell in cells) or cells[0].startswith("[")
    return json.dumps(list(cells), ensure_ascii=False) if spaced else " ".join(cells)


def squad(text: str, where: str) -> tuple[tuple[str, ...], list[Entry]]:
    """Questions of a SQuAD file, 1.1 or 2.0: ``id``, ``question``, ``context`` and ``answer``.

    An answer is the JSON of ``text`` and ``answer_start``, each a list; empty where the question has none. Questions
    are counted as if each stood on a line.

    Raises:
        DamagedFile: this is no SQuAD file.
    """
    try:
        articles = json.loads(text)["data"]
        paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
        asked = [(paragraph.get("context"), one) for paragraph in paragraphs for one in paragraph["qas"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedFile(
            f"no questions in it ({type(error).__name__}: {str(error)[:80]})", where=where,
            remedy="SQuAD has data, paragraphs and qas; other rows of JSON go a line each, as .jsonl",
        ) from None  # fmt: skip
    if not asked:
        raise DamagedFile("no question is there", where=where)
    return QUESTION, [_question(number, context, one) for number, (context, one) in enumerate(asked, 1)]


def _question(number: int, context: Any, asked: Any) -> Entry:
    if not isinstance(asked, dict) or not isinstance(context, str) or not isinstance(asked.get("question"), str):
        return Entry(number, {}, "no text of a question or of its context")
    answers = asked.get("answers", [])
    try:
        texts, starts = [str(one["text"]) for one in answers], [int(one["answer_start"]) for one in answers]
    except (KeyError, TypeError, ValueError):
        return Entry(number, {}, "an answer without its text or answer_start")
    given = json.dumps({"text": texts, "answer_start": starts}, ensure_ascii=False)
    answer = given if answers and not asked.get("is_impossible") else ""
    cells = (str(asked.get("id", number)), asked["question"], context, answer)
    return Entry(number, dict(zip(QUESTION, cells, strict=True)))
