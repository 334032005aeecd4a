"""Text to tensors in one file that every cell of a study reads; made once, found again by its content.

Vocabularies are trained on the training text alone. Windows never cross a chapter. Nothing here depends on
seeds, arms or steps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from variorum.files import sweep, write_whole
from variorum.study.cells import fingerprint
from variorum.study.corpora import DOMAINS, Chapter, Snippet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from variorum.text import Tokenizer

    Arrays = Mapping[str, NDArray[np.int32]]

PAD, FIRST, LAST = "[PAD]", "[CLS]", "[SEP]"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """One file of tensors. ``digest`` is the sha256 of its content and enters every cell's hash."""

    path: Path
    digest: str


def novels(folder: Path, chapters: Sequence[Chapter], *, vocab: int, length: int, windows: int) -> Prepared:
    """Windows of ``length`` + 1 tokens of every training chapter, and some of every held-out one.

    The file holds ``train`` [N, T + 1], ``held_out`` [M, T + 1], ``documents`` [M], ``token_bytes`` [V].

    Args:
        windows: windows scored in each held-out chapter, spread evenly over it.
    """

    def make() -> Arrays:
        import numpy as np

        train = [chapter.text for chapter in chapters if not chapter.held_out]
        tokenizer = _vocabulary(train, vocab, ())
        rows = [window for ids in _encode(tokenizer, train) for window in _windows(ids, length)]
        held = [_windows(ids, length) for ids in _encode(tokenizer, [c.text for c in chapters if c.held_out])]
        picked = [_evenly(document, windows) for document in held]
        return {
            "train": np.array(rows, dtype=np.int32),
            "held_out": np.array([w for document in picked for w in document], dtype=np.int32),
            "documents": np.array([i for i, document in enumerate(picked) for _ in document], dtype=np.int32),
            "token_bytes": np.array([_size(tokenizer, i) for i in range(tokenizer.vocab_size)], dtype=np.int32),
        }

    wanted = {"chapters": chapters, "vocab": vocab, "length": length, "windows": windows}
    return _once(folder, "novels", wanted, make)


def snippets(folder: Path, train: Sequence[Snippet], test: Sequence[Snippet], *, vocab: int, longest: int) -> Prepared:
    """Labelled rows as ids, end to end: ``train_ids``, ``train_ends``, ``train_labels``, and the same for ``test``.

    ``cut`` [2] counts the training and test rows that were cut to ``longest`` tokens. ``wrapper`` [3] holds the
    ids of the padding, first and last tokens.
    """

    def make() -> Arrays:
        import numpy as np

        from variorum.tasks.rows import wrap

        tokenizer = _vocabulary([row.text for row in train], vocab, (PAD, FIRST, LAST))
        pad, first, last = (_id(tokenizer, token) for token in (PAD, FIRST, LAST))
        arrays, cut = {}, []
        for side, rows in (("train", train), ("test", test)):
            labels = [DOMAINS.index(row.domain) for row in rows]
            encoded = wrap(_encode(tokenizer, [r.text for r in rows]), labels, first=first, last=last, longest=longest)
            arrays[f"{side}_ids"] = np.array([i for row in encoded.rows for i in row], dtype=np.int32)
            arrays[f"{side}_ends"] = np.cumsum([len(row) for row in encoded.rows]).astype(np.int32)
            arrays[f"{side}_labels"] = np.array(encoded.labels, dtype=np.int32)
            cut.append(encoded.cut)
        return {**arrays, "cut": np.array(cut, dtype=np.int32), "wrapper": np.array([pad, first, last], dtype=np.int32)}

    wanted = {"train": train, "test": test, "vocab": vocab, "longest": longest}
    return _once(folder, "snippets", wanted, make)


def read(prepared: Prepared) -> Arrays:
    """The arrays of a prepared file."""
    from safetensors.numpy import load_file

    return load_file(prepared.path)


def _once(folder: Path, name: str, wanted: Mapping[str, object], make: Callable[[], Arrays]) -> Prepared:
    """The file made from ``wanted``, from disk where it is there and verifies."""
    from safetensors.numpy import save

    key = fingerprint({"wanted": wanted, "tokenizers": metadata.version("tokenizers"), "code": _code()})
    path, seal = folder / f"{name}-{key[:16]}.safetensors", folder / f"{name}-{key[:16]}.sha256"
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if seal.read_text(encoding="ascii") == digest:
            return Prepared(path=path, digest=digest)
    except (OSError, ValueError):
        pass  # not there, or not whole: make it
    content = save(dict(make()))
    digest = hashlib.sha256(content).hexdigest()
    sweep(folder)
    write_whole(path, content)
    write_whole(seal, digest.encode())
    return Prepared(path=path, digest=digest)


def _code() -> str:
    root = Path(__file__).parent.parent
    files = [*sorted((root / "text").glob("*.py")), Path(__file__)]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def _vocabulary(texts: Sequence[str], size: int, specials: Sequence[str]) -> Tokenizer:
    from variorum.text import train_byte_level_bpe

    return train_byte_level_bpe(texts, size, specials)


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [list(encoding.ids) for encoding in tokenizer.encode_batch(texts, specials=False)]


def _id(tokenizer: Tokenizer, token: str) -> int:
    found = tokenizer.token_to_id(token)
    if found is None:
        raise ValueError(f"the trained vocabulary lacks {token}")
    return found


def _size(tokenizer: Tokenizer, token: int) -> int:
    """Bytes of text behind a token: a byte-level spelling has one character per byte."""
    return len(tokenizer.id_to_token(token))


def _windows(ids: Sequence[int], length: int) -> list[Sequence[int]]:
    """Windows of ``length`` targets; neighbours share the one token that ends one and begins the next."""
    return [ids[start : start + length + 1] for start in range(0, len(ids) - length, length)]


def _evenly(rows: Sequence[Sequence[int]], count: int) -> list[Sequence[int]]:
    step = len(rows) / count
    return [rows[int(i * step)] for i in range(count)] if len(rows) > count else list(rows)
