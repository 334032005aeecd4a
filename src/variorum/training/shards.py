"""A corpus as memory-mapped shards of token ids: built once, in parallel, whole or not at all, and read in place.

One folder holds both sides of the split. Part ``i`` of a side is three files of little-endian integers::

    train-00000.tokens     uint16 or uint32 [tokens]    ids without any wrapper or separator
    train-00000.sentences  int64 [sentences]            where each sentence ends, in tokens of this part
    train-00000.documents  int64 [documents, 2]         where each document ends, in sentences; its bytes of UTF-8

and ``corpus.json`` says what they were made from. A document lies in one part. The bytes do not depend on how many
processes worked. Which side a document is on depends on its text alone, so copies of a document share a side.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from variorum.checkpoint import manifest
from variorum.checkpoint.writing import filling
from variorum.errors import DamagedFile, UsageError
from variorum.text.sentence_ends import sentence_starts
from variorum.text.stream import Source, documents

if TYPE_CHECKING:
    from variorum.text import Tokenizer

Side = Literal["train", "validation"]
SIDES: tuple[Side, ...] = ("train", "validation")
FACTS, TOKENIZER = "corpus.json", "tokenizer"
KINDS = ("tokens", "sentences", "documents")
CHUNK = 2**18
"""Characters that a worker is given at a time."""
PART = 2**28
"""Tokens after which a side's next part begins."""
BYTES_PER_CHARACTER = 2
"""More than shards take of any text but one whose tokens are single bytes."""
Encoded = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
Report = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Split:
    """Which documents are held out, found by reading all of them once.

    Attributes:
        documents, characters: of the whole corpus.
        border: a document whose hash is at most this is held out; −1 holds out none.
    """

    documents: int
    characters: int
    border: int

    def side(self, text: str) -> Side:
        """Where a document belongs."""
        return "validation" if _hash(text) <= self.border else "train"


def survey(sources: Sequence[Source], share: float) -> Split:
    """Read every document, and hold out ``share`` of them: at least one if any.

    Raises:
        UsageError: nothing would be left on one side.
    """
    hashes, characters = [], 0
    for text in documents(sources):
        hashes.append(_hash(text))
        characters += len(text)
    if not hashes:
        raise UsageError("there is no text", where=", ".join(source.place for source in sources))
    held = 0 if share == 0 else max(1, round(share * len(hashes)))
    border = sorted(hashes)[held - 1] if held else -1
    if all(value <= border for value in hashes):
        raise UsageError(
            f"{len(hashes)} documents cannot be split, for copies stay together", where="--validation",
            remedy="cut the texts finer with --by paragraph, or give --validation 0",
        )  # fmt: skip
    return Split(documents=len(hashes), characters=characters, border=border)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")


def build(
    folder: Path, sources: Sequence[Source], tokenizer: Tokenizer, split: Split, *, workers: int = 1,
    report: Report = lambda done, total: None,
) -> None:  # fmt: skip
    """Tokenise ``sources`` into ``folder``.

    Args:
        folder: absent, or an earlier build of ours.
        workers: processes that tokenise.
        report: called with the characters done and their total.

    Raises:
        OverBudget: the disk is too small. What reading the sources and encoding a text raise.
    """
    small = tokenizer.vocab_size <= 2**16
    with filling(folder, BYTES_PER_CHARACTER * split.characters) as place:
        tokenizer.save(place / TOKENIZER)
        writers = {side: _Writer(place, side, np.dtype("<u2" if small else "<u4")) for side in SIDES}
        done = 0
        chunks = _chunks(documents(sources), split)
        for (side, texts), encoded in _encoded(chunks, place / TOKENIZER, tokenizer, workers):
            writers[side].add(encoded)
            done += sum(map(len, texts))
            report(done, split.characters)
        written: dict[str, tuple[str, int]] = {}
        for writer in writers.values():
            written |= writer.close()
        facts: dict[str, Any] = {
            "vocab": tokenizer.vocab_size, "bytes_per_token": 2 if small else 4,
            "sources": [source.fingerprint() for source in sources], "tokenizer": fingerprint(tokenizer),
        }  # fmt: skip
        facts |= {side: writer.counts for side, writer in writers.items()}
        content = json.dumps(facts, indent=1).encode() + b"\n"
        written[FACTS] = _synced(place / FACTS, content)
        _synced(place / manifest.NAME, manifest.content(written))


def fingerprint(tokenizer: Tokenizer) -> str:
    """The SHA-256 of a tokenizer's files."""
    digest = hashlib.sha256(tokenizer.kind.encode())
    for name, content in sorted(tokenizer.files.items()):
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()


def _chunks(texts: Iterator[str], split: Split) -> Iterator[tuple[Side, list[str]]]:
    """Documents of one side at a time, in order, some ``CHUNK`` characters together."""
    waiting: dict[Side, list[str]] = {side: [] for side in SIDES}
    sizes = dict.fromkeys(SIDES, 0)
    for text in texts:
        side = split.side(text)
        waiting[side].append(text)
        sizes[side] += len(text)
        if sizes[side] >= CHUNK:
            yield side, waiting[side]
            waiting[side], sizes[side] = [], 0
    yield from ((side, rest) for side, rest in waiting.items() if rest)


def _encoded(
    chunks: Iterator[tuple[Side, list[str]]], place: Path, tokenizer: Tokenizer, workers: int
) -> Iterator[tuple[tuple[Side, list[str]], Encoded]]:
    """Every chunk with what it encodes to, in the order of the chunks."""
    if workers <= 1:
        yield from ((chunk, encode(tokenizer, chunk[1])) for chunk in chunks)
        return
    queue: deque[tuple[tuple[Side, list[str]], Future[Encoded]]] = deque()
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start, initargs=(place,)) as pool:
        for chunk in chunks:
            queue.append((chunk, pool.submit(_work, chunk[1])))
            if len(queue) > 2 * workers:
                first, found = queue.popleft()
                yield first, found.result()
        yield from ((first, found.result()) for first, found in queue)


_tokenizer: Any = None


def _start(place: Path) -> None:
    global _tokenizer
    from variorum.text import load_tokenizer

    _tokenizer = load_tokenizer(place)


def _work(texts: list[str]) -> Encoded:
    return encode(_tokenizer, texts)


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> Encoded:
    """Ids of texts end to end [tokens], where sentences end [S], and each text's end in sentences and bytes [D, 2]."""
    ids: list[NDArray[np.int64]] = []
    ends: list[NDArray[np.int64]] = []
    table: list[tuple[int, int]] = []
    tokens = sentences = 0
    for text, encoding in zip(texts, tokenizer.encode_batch(texts, specials=False), strict=True):
        found = np.array(encoding.ids, np.int64)
        until = np.array([end for _, end in encoding.offsets], np.int64)
        starts = np.searchsorted(until, sentence_starts(text)[1:], side="right")
        border = np.unique(np.append(starts, len(found)))
        border = border[border > 0]
        ids.append(found)
        ends.append(border + tokens)
        tokens, sentences = tokens + len(found), sentences + len(border)
        table.append((sentences, len(text.encode())))
    return np.concatenate(ids), np.concatenate(ends), np.array(table, np.int64)


class _Writer:
    """The parts of one side, written as chunks come."""

    def __init__(self, place: Path, side: Side, dtype: np.dtype[Any]) -> None:
        self.place, self.side, self.dtype = place, side, dtype
        self.counts = {"tokens": 0, "sentences": 0, "documents": 0, "bytes": 0, "parts": 0}
        self.written: dict[str, tuple[str, int]] = {}
        self.open: dict[str, tuple[BinaryIO, Any, list[int]]] = {}
        self.tokens = self.sentences = 0

    def add(self, encoded: Encoded) -> None:
        ids, ends, table = encoded
        if not self.open or self.tokens + len(ids) > PART:
            self._next()
        shifted = table + np.array([self.sentences, 0])
        pieces = {"tokens": ids.astype(self.dtype), "sentences": ends + self.tokens, "documents": shifted}
        for kind, piece in pieces.items():
            file, digest, size = self.open[kind]
            content = np.ascontiguousarray(piece if kind == "tokens" else piece.astype("<i8")).tobytes()
            file.write(content)
            digest.update(content)
            size[0] += len(content)
        self.tokens, self.sentences = self.tokens + len(ids), self.sentences + len(ends)
        for name, count in zip(("tokens", "sentences", "documents"), map(len, encoded), strict=True):
            self.counts[name] += count
        self.counts["bytes"] += int(table[:, 1].sum())

    def _next(self) -> None:
        self._finish()
        for kind in KINDS:
            file = (self.place / f"{self.side}-{self.counts['parts']:05}.{kind}").open("xb")
            self.open[kind] = (file, hashlib.sha256(), [0])
        self.counts["parts"] += 1
        self.tokens = self.sentences = 0

    def _finish(self) -> None:
        for file, digest, size in self.open.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
            self.written[Path(file.name).name] = (digest.hexdigest(), size[0])
        self.open = {}

    def close(self) -> dict[str, tuple[str, int]]:
        self._finish()
        return self.written


def _synced(path: Path, content: bytes) -> tuple[str, int]:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(content).hexdigest(), len(content)


@dataclass(frozen=True)
class Corpus:
    """One side of a built corpus, read in place.

    Attributes:
        parts: ids, one memory-mapped array for each part.
        part_starts: int64 [parts + 1], tokens before each part.
        sentence_starts: int64 [S + 1], tokens before each sentence; the last is the number of tokens.
        document_starts: int64 [D + 1], sentences before each document.
        document_bytes: int64 [D].
    """

    parts: tuple[NDArray[Any], ...]
    part_starts: NDArray[np.int64]
    sentence_starts: NDArray[np.int64]
    document_starts: NDArray[np.int64]
    document_bytes: NDArray[np.int64]

    @property
    def tokens(self) -> int:
        return int(self.part_starts[-1])

    @property
    def documents(self) -> int:
        return len(self.document_bytes)

    @cached_property
    def document_tokens(self) -> NDArray[np.int64]:
        """Tokens before each document, int64 [D + 1]."""
        found: NDArray[np.int64] = self.sentence_starts[self.document_starts]
        return found

    def ids(self, start: int, end: int) -> NDArray[np.int64]:
        """The ids from token ``start`` to before ``end``, int64; both lie in one document or part."""
        part = int(np.searchsorted(self.part_starts, start, side="right")) - 1
        part = min(part, len(self.parts) - 1)
        base = int(self.part_starts[part])
        return np.asarray(self.parts[part][start - base : end - base], np.int64)

    def some(self, numbers: NDArray[np.int64]) -> Corpus:
        """The documents of these numbers alone, copied into memory, in this order."""
        tokens, first = self.document_tokens, self.document_starts
        ids = [self.ids(int(tokens[n]), int(tokens[n + 1])) for n in numbers]
        lengths = [np.diff(self.sentence_starts[first[n] : first[n + 1] + 1]) for n in numbers]
        whole = np.concatenate(ids).astype(self.parts[0].dtype)
        return Corpus(
            (whole,), np.array([0, len(whole)], np.int64), np.append(0, np.cumsum(np.concatenate(lengths))),
            np.append(0, np.cumsum([len(one) for one in lengths])), self.document_bytes[numbers],
        )  # fmt: skip


def facts_of(folder: Path) -> dict[str, Any]:
    """What a built corpus says of itself.

    Raises:
        DamagedFile: it is none.
    """
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_bytes())
        if not all(side in facts for side in SIDES):
            raise ValueError("no sides")
    except (OSError, ValueError) as error:
        raise DamagedFile(f"is no corpus of ours ({error})", where=str(folder / FACTS)) from None
    return facts


def read(folder: Path, side: Side) -> Corpus:
    """Map one side of a built corpus into memory.

    Raises:
        DamagedFile: a file is missing or has another length than the corpus says.
    """
    facts = facts_of(folder)
    dtype = np.dtype("<u2" if facts["bytes_per_token"] == 2 else "<u4")
    parts, tokens, sentences, docs, sizes = [], [0], [np.zeros(1, np.int64)], [np.zeros(1, np.int64)], []
    for number in range(facts[side]["parts"]):
        name = f"{side}-{number:05}"
        parts.append(_mapped(folder / f"{name}.tokens", dtype))
        ends, table = _mapped(folder / f"{name}.sentences", "<i8"), _mapped(folder / f"{name}.documents", "<i8")
        table = table.reshape(-1, 2)
        docs.append(table[:, 0] + sum(len(s) for s in sentences[1:]))
        sentences.append(ends + tokens[-1])
        sizes.append(table[:, 1])
        tokens.append(tokens[-1] + len(parts[-1]))
    if tokens[-1] != facts[side]["tokens"]:
        raise DamagedFile(f"{tokens[-1]:,} tokens, not {facts[side]['tokens']:,}", where=str(folder))
    return Corpus(
        tuple(parts), np.array(tokens, np.int64), np.concatenate(sentences), np.concatenate(docs),
        np.concatenate(sizes) if sizes else np.zeros(0, np.int64),
    )  # fmt: skip


def _mapped(path: Path, dtype: Any) -> NDArray[Any]:
    with contextlib.suppress(FileNotFoundError):
        return np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype)
    raise DamagedFile("is missing", where=str(path), remedy="build the corpus again")
