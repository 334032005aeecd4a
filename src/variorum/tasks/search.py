"""Texts found by what they mean: every text's vector kept, the nearest to a query's found exactly, by cosine.

An index is a directory: the vectors as safetensors, which are mapped and not read, the texts as JSON lines, and a
manifest with the SHA-256 of each.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from variorum.errors import DamagedFile, UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from variorum.model import Model

VECTORS, PROBED, ROWS, ABOUT = "vectors", "probe", "rows.jsonl", "index.json"
KIND = "variorum search index"
#: Cosines that are held at once.
SCORES = 2**22
#: What every index holds the vector of, and how far two readings of it by one model may lie apart.
PROBE, SAME = "A text by which a model is known.", 1e-3


@dataclasses.dataclass(frozen=True)
class Hit:
    """A text that was found: its row from 0, the cosine, the text, and the line of the file where it stands."""

    row: int
    score: float
    text: str
    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Index:
    """Texts by their vectors.

    Attributes:
        vectors: of length 1, float32 [N, D].
        texts: that they stand for.
        lines: of the file where each begins.
        probe: the vector [1, D] of one fixed text, by which the model that made the others is known again.

    Raises:
        UsageError: not a vector and a line for each text.
    """

    vectors: Tensor
    texts: Sequence[str]
    lines: Sequence[int]
    probe: Tensor

    def __post_init__(self) -> None:
        if not len(self.vectors) == len(self.texts) == len(self.lines):
            raise UsageError(
                f"{len(self.vectors)} vectors and {len(self.lines)} lines for {len(self.texts)} texts",
                remedy="give one of each for every text",
            )

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def of(cls, model: Model, texts: Sequence[str], lines: Sequence[int] | None = None) -> tuple[Self, int]:
        """An index of ``texts``, and how many of them were cut to the model's length; lines count from 1 if absent."""
        vectors, cut = passages(model, texts)
        lines = range(1, len(texts) + 1) if lines is None else lines
        return cls(vectors=vectors, texts=tuple(texts), lines=tuple(lines), probe=passages(model, [PROBE])[0]), cut

    def require(self, model: Model) -> None:
        """See that ``model`` made these vectors.

        Raises:
            UsageError: another one did.
        """
        probe, _ = passages(model, [PROBE])
        if probe.shape != self.probe.shape or float((probe - self.probe).abs().max()) > SAME:
            raise UsageError("another model made this index", remedy="give that model, or make the index anew")

    def followed(self, model: Model, texts: Sequence[str], lines: Sequence[int] | None = None) -> tuple[Self, int]:
        """The index of these texts, and how many of them had to be read: those that this one does not hold yet.

        So a file that grew, shrank or was put in another order costs what is new in it.

        Raises:
            UsageError: another model made this index.
        """
        import torch

        self.require(model)
        known = {text: row for row, text in enumerate(self.texts)}
        new = list(dict.fromkeys(text for text in texts if text not in known))
        known |= {text: len(self) + number for number, text in enumerate(new)}
        every = torch.cat((self.vectors, passages(model, new)[0]))
        made = dataclasses.replace(
            self, vectors=every[[known[text] for text in texts]], texts=tuple(texts),
            lines=tuple(range(1, len(texts) + 1) if lines is None else lines),
        )  # fmt: skip
        return made, len(new)

    def search(self, queries: Tensor, top_k: int = 10) -> list[list[Hit]]:
        """The ``top_k`` texts nearest to each query, the best first, of equal ones the first.

        Args:
            queries: vectors of length 1, [Q, D].

        Raises:
            UsageError: fewer than one text is wanted.
        """
        if top_k < 1:
            raise UsageError(f"the best {top_k} texts are none", remedy="give 1 or more")
        scores, rows = self._best(queries.to(self.vectors), min(top_k, len(self)))
        return [
            [Hit(row, score, self.texts[row], self.lines[row]) for score, row in zip(*pair, strict=True)]
            for pair in zip(scores.tolist(), rows.tolist(), strict=True)
        ]

    def _best(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Cosines and rows [Q, count], block by block, so that a large index need not fit into memory."""
        import torch

        scores = queries.new_empty(len(queries), 0)
        rows = torch.empty(len(queries), 0, dtype=torch.long)
        size = max(1, SCORES // max(1, len(queries)))
        for begin in range(0, len(self), size):
            block = queries @ self.vectors[begin : begin + size].T
            scores = torch.cat((scores, block), 1)
            rows = torch.cat((rows, torch.arange(begin, begin + block.shape[1]).expand(len(queries), -1)), 1)
            # A stable sort, so that the earlier of equal texts comes first; rows are in order before it.
            order = scores.sort(descending=True, stable=True).indices[:, :count]
            scores, rows = scores.gather(1, order), rows.gather(1, order)
        return scores, rows

    def save(self, directory: str | Path) -> None:
        """Write the index, whole or not at all.

        Raises:
            UsageError: the directory holds something else. OverBudget, AccessError: it cannot be written.
        """
        from variorum.checkpoint.files import write_directory

        rows = ({"line": line, "text": text} for line, text in zip(self.lines, self.texts, strict=True))
        about = {"kind": KIND, "texts": len(self), "width": self.vectors.shape[1]}
        others = {
            ROWS: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode(),
            ABOUT: json.dumps(about, indent=2).encode() + b"\n",
        }
        write_directory(Path(directory), {VECTORS: self.vectors, PROBED: self.probe}, others)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """A saved index, its vectors mapped from their file.

        Raises:
            NotFound: there is none. DamagedFile: it is not as it was saved.
        """
        from variorum.checkpoint import manifest
        from variorum.checkpoint.files import TensorFiles, read_json

        place = Path(directory)
        about = read_json(place / ABOUT)
        if about.get("kind") != KIND or not manifest.verify(place):
            raise DamagedFile("is no index of texts", where=str(place), remedy="make it anew")
        rows = [json.loads(line) for line in (place / ROWS).read_bytes().split(b"\n") if line]
        with TensorFiles(place) as files:
            vectors, probe = files.get(VECTORS), files.get(PROBED)
        texts, lines = (tuple(row[name] for row in rows) for name in ("text", "line"))
        return cls(vectors=vectors, texts=texts, lines=lines, probe=probe)


def passages(model: Model, texts: Sequence[str]) -> tuple[Tensor, int]:
    """Vectors of texts that may answer, and how many of them were cut; see :func:`variorum.inference.vectors.embed`."""
    return _vectors(model, texts, "passage")


def questions(model: Model, texts: Sequence[str]) -> Tensor:
    """Vectors of texts that ask."""
    return _vectors(model, texts, "query")[0]


def _vectors(model: Model, texts: Sequence[str], role: str) -> tuple[Tensor, int]:
    """Vectors of length 1, with what the checkpoint puts before texts of this role, if anything."""
    from torch.nn.functional import normalize

    from variorum.inference.sentences import recipe_for
    from variorum.inference.vectors import embed

    vectors, cut = embed(model, texts, prompt=role if role in recipe_for(model).prompts else None)
    return normalize(vectors.float().cpu(), dim=-1), cut
