"""Denoising whole texts: spans of unknown length behind one mask, sentences out of order (BART), sentences left out
(PEGASUS)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from variorum.objectives.base import IGNORED, Corrupted
from variorum.objectives.pairs import padded
from variorum.objectives.rewriting import Rewriting

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch
    from variorum.objectives.symbols import Symbols
    from variorum.spec.recipe import Masking


class Denoising(Rewriting):
    """Rows of ``input_ids`` [B, T] with the special tokens at their ends, which stay where they are."""

    def __init__(self, masking: Masking, symbols: Symbols) -> None:
        self.masking, self.symbols = masking, symbols

    def bodies(self, batch: Batch) -> list[tuple[list[int], list[int], list[int]]]:
        """Each text without padding as what stands before it, its own tokens, and what stands behind."""
        ids, mask = batch["input_ids"], batch.get("attention_mask")
        eligible = self.symbols.eligible(ids, mask, batch.get("special_tokens_mask"))
        parts = []
        for at, row in enumerate(ids):
            real = mask[at].bool() if mask is not None else eligible[at].new_ones(len(row))
            tokens, own = row[real].tolist(), eligible[at][real].nonzero().flatten().tolist()
            begin, end = (own[0], own[-1] + 1) if own else (len(tokens), len(tokens))
            parts.append((tokens[:begin], tokens[begin:end], tokens[end:]))
        return parts

    def example(self, read: list[list[int]], written: list[list[int]]) -> Corrupted:
        """Rows to read and to write, padded."""
        rows, real = padded(read, self.symbols.pad or 0)
        return Corrupted(inputs={"input_ids": rows, "attention_mask": real}, targets=padded(written, IGNORED)[0])


class Infilling(Denoising):
    """Spans of Poisson length, zero included, each behind one mask; all of the text is written (Lewis et al. 2019).

    ``permuted`` is the share of texts whose sentences are first put in another order.
    """

    name = "infilling"

    def __init__(self, masking: Masking, symbols: Symbols, permuted: float = 0.0) -> None:
        super().__init__(masking, symbols)
        self.permuted = permuted

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Noise each text; ``rate`` of its units vanish."""
        import torch

        read, written = [], []
        for before, body, behind in self.bodies(batch):
            noised = body
            if float(torch.rand((), generator=rng)) < self.permuted:
                noised = shuffled(body, self.symbols.stops, rng)
            read.append([*before, *self._filled(noised, rng), *behind])
            written.append([*before, *body, *behind])
        return self.example(read, written)

    def _filled(self, body: list[int], rng: torch.Generator) -> list[int]:
        units = self._units(body)
        if not units:
            return body
        runs = poisson_runs(len(units), self.masking.rate, self.masking.span or 3.0, rng)
        mask = self.symbols.required("mask")
        filled: list[int] = []
        for run in placed(runs, len(units), rng):
            filled += [mask] if isinstance(run, range) else units[run]
        return filled

    def _units(self, body: list[int]) -> list[list[int]]:
        """Tokens, or words where the spec says so."""
        import torch

        if self.masking.unit == "token":
            return [[token] for token in body]
        ids = torch.tensor([body], dtype=torch.long)
        numbers = self.symbols.words(ids, torch.ones_like(ids, dtype=torch.bool))[0].tolist()
        units: list[list[int]] = [[] for _ in range(max(numbers, default=-1) + 1)]
        for token, number in zip(body, numbers, strict=True):
            units[number].append(token)
        return units


def poisson_runs(length: int, rate: float, span: float, rng: torch.Generator) -> list[int]:
    """Run lengths that hide ``rate`` of ``length`` units, at least one; the last is cut to fit. Some are 0."""
    import torch

    wanted, runs, hidden = max(1, round(length * rate)), [], 0
    while hidden < wanted:
        drawn = int(torch.poisson(torch.tensor(span), generator=rng))
        runs.append(min(drawn, wanted - hidden))
        hidden += runs[-1]
    return runs


def placed(runs: list[int], length: int, rng: torch.Generator) -> list[int | range]:
    """The units of a text in order, a range in the place of each run: every place alike likely.

    A run of 0 stands between two units, and hides none.
    """
    import torch

    left = length - sum(runs)
    order = torch.randperm(left + len(runs), generator=rng).tolist()
    made: list[int | range] = []
    at = 0
    for drawn in order:
        run = runs[drawn] if drawn < len(runs) else None
        made.append(at if run is None else range(at, at + run))
        at += 1 if run is None else run
    return made


class GapSentences(Denoising):
    """The sentences most like the rest are left out, and written (Zhang et al. 2019: "Ind-Orig").

    Of those chosen, ``mask`` give way to one mask each; the rest stay, and are written all the same.
    """

    name = "gap_sentences"

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Leave ``rate`` of the sentences out, one at least; a text of one sentence is not asked about."""
        import torch

        read, written = [], []
        for before, body, behind in self.bodies(batch):
            parts = sentences(body, self.symbols.stops)
            chosen = principal(parts, max(1, round(self.masking.rate * len(parts)))) if len(parts) > 1 else []
            stays = (torch.rand(len(parts), generator=rng) >= self.masking.mask).tolist()
            row = [*before]
            for number, part in enumerate(parts):
                row += part if number not in chosen or stays[number] else [self.symbols.required("mask")]
            read.append([*row, *behind])
            asked = [token for number in chosen for token in parts[number]]
            written.append([*asked, *behind] if chosen else [IGNORED])
        return self.example(read, written)


def sentences(body: list[int], stops: frozenset[int]) -> list[list[int]]:
    """A text cut behind each token that ends a sentence."""
    parts: list[list[int]] = [[]]
    for token, following in zip(body, [*body[1:], None], strict=True):
        parts[-1].append(token)
        if token in stops and following is not None and following not in stops:
            parts.append([])
    return [part for part in parts if part]


def shuffled(body: list[int], stops: frozenset[int], rng: torch.Generator) -> list[int]:
    """A text with its sentences in random order."""
    import torch

    parts = sentences(body, stops)
    return [token for at in torch.randperm(len(parts), generator=rng).tolist() for token in parts[at]]


def principal(parts: list[list[int]], count: int) -> list[int]:
    """The ``count`` sentences with the greatest ROUGE-1 F1 against the rest of their text, in the text's order."""
    whole = Counter(token for part in parts for token in part)
    scores = [_overlap(Counter(part), whole - Counter(part)) for part in parts]
    best = sorted(range(len(parts)), key=lambda at: (-scores[at], at))
    return sorted(best[:count])


def _overlap(one: Counter[int], other: Counter[int]) -> float:
    shared = (one & other).total()
    return 2 * shared / max(1, one.total() + other.total())
