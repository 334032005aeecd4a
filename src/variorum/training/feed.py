"""What each step reads: rows in their order, as batches cut into micro-batches; a pure function of the step.

A run goes through phases, each with rows of its own length (BERT: 128 tokens for nine tenths of the steps, then 512).
A batch of single texts is ``input_ids`` [B, T] in their wrapper, with ``attention_mask`` where they differ in length
and ``token_type_ids`` where the model has segments; objectives take the padding out again, so that no text sees
another. A batch of pairs is ``first`` and ``second`` with their masks, and ``document``: the objective puts the wrapper
on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from variorum.errors import UsageError
from variorum.text.encoding import Slot, Wrapper
from variorum.training.formats import Ids, Rows
from variorum.training.order import Shuffle

if TYPE_CHECKING:
    from variorum.objectives.base import Batch

PLAIN = Wrapper()


@dataclass(frozen=True, kw_only=True)
class Dress:
    """What rows wear on their way to the model.

    Attributes:
        wrapper: special tokens around a single text; none for streams.
        pad_id: fills up padded rows.
        segments: whether the model reads ``token_type_ids``.
    """

    wrapper: Wrapper = PLAIN
    pad_id: int = 0
    segments: bool = False

    def batch(self, rows: Rows, numbers: Sequence[int]) -> Batch:
        """The rows of these numbers as one batch."""
        import torch

        texts = [rows.row(number) for number in numbers]
        if rows.texts == 2:
            first, first_mask = self._padded([a for a, _ in texts])
            second, second_mask = self._padded([b for _, b in texts])
            document = np.array([rows.document(number) for number in numbers], np.int64)
            found = {"first": first, "second": second, "first_mask": first_mask, "second_mask": second_mask,
                     "document": document}  # fmt: skip
            return {name: torch.from_numpy(value) for name, value in found.items()}
        ids, mask = self._padded([self._wrapped(text) for (text,) in texts])
        found = {"input_ids": ids} if mask.all() else {"input_ids": ids, "attention_mask": mask}
        if self.segments:
            found["token_type_ids"] = np.zeros_like(ids)
        return {name: torch.from_numpy(value) for name, value in found.items()}

    def _wrapped(self, text: Ids) -> Ids:
        return np.concatenate([_filled(slot, text) for slot in self.wrapper.single])

    def _padded(self, texts: Sequence[Ids]) -> tuple[Ids, Ids]:
        size = (len(texts), max(map(len, texts)))
        ids, mask = np.full(size, self.pad_id), np.zeros(size, np.int64)
        for i, text in enumerate(texts):
            ids[i, : len(text)], mask[i, : len(text)] = text, 1
        return ids, mask


def _filled(slot: Slot, text: Ids) -> Ids:
    if slot.sequence is not None:
        return text
    return np.array([] if slot.id is None else [slot.id], np.int64)


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Steps ``begin`` to before ``end`` of a run read ``batch`` of these rows each, ``micro`` at a time at most."""

    begin: int
    end: int
    rows: Rows
    batch: int
    micro: int


@dataclass(frozen=True, kw_only=True)
class Feed:
    """Step number → micro-batches."""

    phases: tuple[Phase, ...]
    dress: Dress
    seed: int

    def __post_init__(self) -> None:
        for phase in self.phases:
            if not len(phase.rows):
                raise UsageError("there is not one row of this length", where="data", remedy="use shorter rows")

    def __call__(self, step: int) -> list[Batch]:
        index, phase = self._phase(step)
        # Each phase's rows are their own, so its order is too.
        order = Shuffle(rows=len(phase.rows), seed=self.seed + index)
        numbers = order((step - phase.begin) * phase.batch, phase.batch).tolist()
        return [self.dress.batch(phase.rows, numbers[i : i + phase.micro]) for i in range(0, phase.batch, phase.micro)]

    def _phase(self, step: int) -> tuple[int, Phase]:
        index = next((i for i, phase in enumerate(self.phases) if step < phase.end), len(self.phases) - 1)
        return index, self.phases[index]

    def epochs(self, step: int) -> float:
        """How often the rows of its phase were read when ``step`` begins."""
        _, phase = self._phase(step)
        return (step - phase.begin) * phase.batch / len(phase.rows)
