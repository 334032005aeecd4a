"""Two texts judged together: does the second follow the first (BERT), are the two in order (ALBERT)?

A batch of pairs holds ``first`` [B, S] and ``second`` [B, T], each text without special tokens, their masks
``first_mask`` and ``second_mask``, and ``document`` [B]: ``second`` continues ``first`` in that document.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import TYPE_CHECKING

from variorum.errors import UsageError
from variorum.objectives.base import IGNORED, Corrupted, LossSum, Objective
from variorum.objectives.streams import unpadded

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch
    from variorum.objectives.symbols import Symbols

TRUE, FALSE = 0, 1
"""Labels as in the released code: 0 is a true pair, in order."""


class Pairs(Objective):
    """A pair objective; alone, or beside a masked one. ``segments``: how many the model tells apart."""

    requires = ("next_sentence",)

    def __init__(self, symbols: Symbols, segments: int = 2) -> None:
        self.symbols, self.segments = symbols, segments

    @abstractmethod
    def judged(
        self, pairs: list[tuple[list[int], list[int]]], documents: list[int], rng: torch.Generator
    ) -> tuple[list[tuple[list[int], list[int]]], list[int]]:
        """True pairs made into questions, and the right answers."""

    def join(self, batch: Batch, rng: torch.Generator) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Rows as a model reads them, and a label for each; a pair with an empty text is not asked about.

        Raises:
            UsageError: the batch holds no pairs.
        """
        import torch

        pairs = texts_of(batch)
        documents = batch["document"].tolist() if "document" in batch else list(range(len(pairs)))
        asked, labels = self.judged(pairs, documents, rng)
        room = max((len(a) + len(b) for a, b in pairs), default=0)
        asked = [(a, b[: room - len(a)]) for a, b in asked]
        labels = [label if a and b else IGNORED for label, (a, b) in zip(labels, asked, strict=True)]
        return assembled(asked, self.symbols, self.segments), torch.tensor(labels)

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Half of the pairs made false; the rest is kept."""
        inputs, labels = self.join(batch, rng)
        return Corrupted(inputs=inputs, targets=labels)

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """Cross-entropy of the head with two labels."""
        import torch.nn.functional as F

        inputs, (labels,) = unpadded(model, example.inputs, example.targets)
        scores = model(**inputs).logits_by_head[self.requires[0]]
        total = F.cross_entropy(scores, labels, ignore_index=IGNORED, reduction="sum")
        return LossSum(total=total, count=example.count)


class NextSentence(Pairs):
    """Half of the second texts come from another document (Devlin et al. 2018, section 3.1)."""

    name = "next_sentence"

    def judged(
        self, pairs: list[tuple[list[int], list[int]]], documents: list[int], rng: torch.Generator
    ) -> tuple[list[tuple[list[int], list[int]]], list[int]]:
        """A false second text is never the true one, nor the first, in any wording alike, nor of the same document."""
        import torch

        coins = torch.rand(len(pairs), 2, generator=rng).tolist()
        asked, labels = [], []
        for (first, second), own, (coin, draw) in zip(pairs, documents, coins, strict=True):
            others = [
                b for (_, b), at in zip(pairs, documents, strict=True) if at != own and b not in ([], first, second)
            ]
            if coin < 0.5 and not others:
                warnings.warn("a batch of one document has no false pairs: true ones stay true", stacklevel=2)
            false = coin < 0.5 and bool(others)
            asked.append((first, others[int(draw * len(others))] if false else second))
            labels.append(FALSE if false else TRUE)
        return asked, labels


class SentenceOrder(Pairs):
    """Half of the pairs are swapped (Lan et al. 2019, section 3.1)."""

    name = "sentence_order"

    def judged(
        self, pairs: list[tuple[list[int], list[int]]], documents: list[int], rng: torch.Generator
    ) -> tuple[list[tuple[list[int], list[int]]], list[int]]:
        """Both texts stay; their order does not. Two equal texts have none."""
        import torch

        swapped = (torch.rand(len(pairs), generator=rng) < 0.5).tolist()
        asked = [(b, a) if swap else (a, b) for (a, b), swap in zip(pairs, swapped, strict=True)]
        labels = [IGNORED if a == b else FALSE if swap else TRUE for (a, b), swap in zip(pairs, swapped, strict=True)]
        return asked, labels


def texts_of(batch: Batch) -> list[tuple[list[int], list[int]]]:
    """The texts of a batch of pairs, without padding.

    Raises:
        UsageError: it holds no pairs.
    """
    if "first" not in batch or "second" not in batch:
        raise UsageError(
            f"a batch of {', '.join(batch)} where pairs of texts are asked for",
            remedy="draw segment pairs, or set objective.pair to None",
        )
    return list(zip(_texts(batch, "first"), _texts(batch, "second"), strict=True))


def _texts(batch: Batch, name: str) -> list[list[int]]:
    rows, mask = batch[name], batch.get(f"{name}_mask")
    return [row.tolist() if mask is None else row[mask[at].bool()].tolist() for at, row in enumerate(rows)]


def assembled(pairs: list[tuple[list[int], list[int]]], symbols: Symbols, segments: int) -> dict[str, torch.Tensor]:
    """Pairs with their special ids, as rows: ``input_ids``, ``attention_mask``, ``token_type_ids`` [B, T].

    The last is left out where a model tells no two segments apart.
    """
    ids: list[list[int]] = []
    kinds: list[list[int]] = []
    for pair in pairs:
        texts, row, kind = iter(pair), [], []
        for id, segment in symbols.pair:
            part = next(texts) if id is None else [id]
            row += part
            kind += [segment] * len(part)
        ids.append(row)
        kinds.append(kind)
    rows, mask = padded(ids, symbols.pad or 0)
    inputs = {"input_ids": rows, "attention_mask": mask}
    return inputs | ({"token_type_ids": padded(kinds, 0)[0]} if segments > 1 else {})


def padded(rows: list[list[int]], fill: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of different lengths as one rectangle [B, T], and 1 where it holds them."""
    import torch

    longest = max(map(len, rows), default=0)
    values = torch.full((len(rows), longest), fill, dtype=torch.long)
    mask = torch.zeros_like(values)
    for at, row in enumerate(rows):
        values[at, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[at, : len(row)] = 1
    return values, mask
