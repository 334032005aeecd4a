"""Span corruption: runs of tokens give way to sentinels, and the runs are what is written (Raffel et al. 2019).

Counts are those of T5's released code, so that a row of ``raw_length(512)`` = 568 tokens becomes 512 to read and 114 to
write, end tokens included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from variorum.errors import UsageError
from variorum.objectives.base import IGNORED, Corrupted
from variorum.objectives.pairs import padded
from variorum.objectives.rewriting import Rewriting
from variorum.text.text_to_text import hidden

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch
    from variorum.objectives.symbols import Symbols
    from variorum.spec.recipe import Masking

Span = tuple[int, int]


def planned(length: int, rate: float, span: float) -> tuple[int, int]:
    """How many of ``length`` tokens are hidden, and in how many runs (released code; halves go to the even number)."""
    noise = min(max(round(length * rate), 1), length - 1)
    return noise, min(max(round(noise / span), 1), length - noise)


def lengths(length: int, rate: float, span: float) -> tuple[int, int]:
    """What ``length`` raw tokens become: tokens to read and tokens to write, each with its end token."""
    noise, spans = planned(length, rate, span)
    return length - noise + spans + 1, noise + spans + 1


def raw_length(inputs: int, rate: float, span: float) -> int:
    """The most raw tokens that become ``inputs`` tokens to read.

    Raises:
        UsageError: not even two raw tokens fit.
    """
    if inputs < lengths(2, rate, span)[0]:
        raise UsageError(f"no corrupted text fits {inputs} tokens", remedy="give the input more room")
    raw = inputs
    while lengths(raw + 1, rate, span)[0] <= inputs:
        raw += 1
    return raw


def spans_of(length: int, rate: float, span: float, rng: torch.Generator) -> list[Span]:
    """Runs to hide in ``length`` >= 2 tokens: [begin, end) each, never at the start, never touching."""
    noise, count = planned(length, rate, span)
    gaps, runs = _parts(length - noise, count, rng), _parts(noise, count, rng)
    spans, at = [], 0
    for gap, run in zip(gaps, runs, strict=True):
        spans.append((at + gap, at + gap + run))
        at += gap + run
    return spans


def _parts(total: int, count: int, rng: torch.Generator) -> list[int]:
    """``total`` cut into ``count`` parts of at least one, every way alike likely."""
    import torch

    cuts = sorted((torch.randperm(total - 1, generator=rng)[: count - 1] + 1).tolist())
    return [end - begin for begin, end in zip([0, *cuts], [*cuts, total], strict=True)]


class SpanCorruption(Rewriting):
    """Rows of raw text, ``input_ids`` [B, T] without special tokens; full ones of :meth:`raw_length` tokens."""

    name = "span_corruption"

    def __init__(self, masking: Masking, symbols: Symbols) -> None:
        self.rate, self.span, self.symbols = masking.rate, masking.span or 3.0, symbols

    def raw_length(self, inputs: int) -> int:
        """How many raw tokens a row has to hold to fill an input of ``inputs`` tokens."""
        return raw_length(inputs, self.rate, self.span)

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Hide runs of each text; a text of fewer than two tokens is read as it is, and nothing is asked.

        Raises:
            UsageError: a text needs more sentinels than the vocabulary has.
        """
        ids, mask, end = batch["input_ids"], batch.get("attention_mask"), self.symbols.required("end")
        read, written = [], []
        for at, row in enumerate(ids):
            tokens = (row if mask is None else row[mask[at].bool()]).tolist()
            if len(tokens) < 2:
                read.append([*tokens, end])
                written.append([IGNORED])
                continue
            spans = spans_of(len(tokens), self.rate, self.span, rng)
            kept, asked = hidden(tokens, spans, self._mark)
            read.append([*kept, end])
            written.append([*asked[:-1], end])  # the released code writes no sentinel behind the last span
        rows, real = padded(read, self.symbols.pad or 0)
        return Corrupted(inputs={"input_ids": rows, "attention_mask": real}, targets=padded(written, IGNORED)[0])

    def _mark(self, number: int) -> int:
        sentinels = self.symbols.sentinels
        if number > len(sentinels):
            raise UsageError(
                f"a text has more hidden spans than the {len(sentinels)} sentinels of the vocabulary",
                remedy="shorten the rows, lengthen objective.masking.span, or add sentinels to the tokenizer",
            )
        return sentinels[number] if number < len(sentinels) else self.symbols.required("end")
