"""What the engines read: texts of real lengths, one text of an exact length, prompts; all from what ships here."""

from __future__ import annotations

import json
import random
from pathlib import Path

from variorum.text.corpora import austen, sentiment
from variorum.text.readers import paragraphs


def snippets(count: int) -> list[str]:
    """So many rated snippets from four domains, drawn by chance and always the same."""
    return [one.text for one in random.Random(0).sample(sentiment(), count)]


def ratings(count: int) -> list[float]:
    """What people made of :func:`snippets`, −4 to +4, in their order."""
    return [one.rating for one in random.Random(0).sample(sentiment(), count)]


def novel_paragraphs(count: int) -> list[str]:
    """So many paragraphs of the novels, drawn by chance and always the same."""
    return random.Random(0).sample([one for novel in austen().values() for one in paragraphs(novel)], count)


def exact(tokenizer: Path, length: int) -> str:
    """A text that ``tokenizer`` (a ``tokenizer.json``) makes exactly ``length`` tokens of, special ones included."""
    from tokenizers import Tokenizer

    pieces = Tokenizer.from_file(str(tokenizer))
    pieces.no_truncation()
    pieces.no_padding()
    for paragraph in paragraphs(austen()["Emma"]):
        found = pieces.encode(paragraph)
        ends = [offset[1] for offset in found.offsets]
        if len(ends) > length:
            text = paragraph[: ends[length - 2]]
            if len(pieces.encode(text)) == length:
                return text
    raise ValueError(f"no text has {length} tokens")


def written(tokenizer: Path, length: int, start: int = 0) -> list[int]:
    """So many ids of Emma's first chapters from token ``start`` on, by ``tokenizer`` (a ``tokenizer.json``)."""
    from tokenizers import Tokenizer

    pieces = Tokenizer.from_file(str(tokenizer))
    text = "\n\n".join(paragraphs(austen()["Emma"])[:40])
    ids: list[int] = pieces.encode(text, add_special_tokens=False).ids[start : start + length]
    if len(ids) < length:
        raise ValueError(f"the chapters have no {length} tokens after {start}")
    return ids


def words(tokenizer: Path) -> list[str]:
    """The name of every token, by its id."""
    from tokenizers import Tokenizer

    pieces = Tokenizer.from_file(str(tokenizer))
    return [pieces.id_to_token(i) for i in range(pieces.get_vocab_size())]


def kept(texts: list[str], place: Path) -> str:
    """``texts`` in a file that every engine reads; its name."""
    place.write_text(json.dumps(texts), "utf-8")
    return str(place)


def read(place: str) -> list[str]:
    """The texts of :func:`kept`."""
    found: list[str] = json.loads(Path(place).read_text("utf-8"))
    return found
