"""Which tokens are hidden, and by what: tokens, whole words or runs, drawn afresh or from a few fixed masks."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from variorum.objectives.symbols import Symbols
    from variorum.spec.recipe import Masking


def choose(
    ids: torch.Tensor, eligible: torch.Tensor, masking: Masking, symbols: Symbols, rng: torch.Generator
) -> torch.Tensor:
    """The tokens that are hidden, bool [B, T]: ``rate`` of the eligible ones of each row, at least one where there is.

    The count is rounded by chance, so that its mean is the rate whatever the length (released code of fairseq).
    """
    import torch

    if masking.span is not None:
        return _runs(eligible, masking, rng)
    units = symbols.words(ids, eligible) if masking.unit == "word" else None
    count = eligible.sum(-1)
    draw = torch.rand(len(ids), generator=rng)
    wanted = torch.minimum((masking.rate * count + draw).long().clamp(min=1), count)
    if units is None:
        keys = torch.rand(ids.shape, generator=rng).masked_fill(~eligible, 2.0)
        return (keys.argsort(-1).argsort(-1) < wanted[:, None]) & eligible
    return _words(units, eligible, wanted, rng)


def _words(units: torch.Tensor, eligible: torch.Tensor, wanted: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Words in random order, as many as come nearest to the wanted number of tokens."""
    import torch

    most = int(units.max()) + 1 if units.numel() else 0
    if most < 1:
        return torch.zeros_like(eligible)
    sizes = torch.zeros(len(units), most + 1, dtype=torch.long).scatter_add_(1, units % (most + 1), eligible.long())
    keys = torch.rand(sizes.shape, generator=rng).masked_fill(sizes == 0, 2.0)
    order = keys.argsort(-1)
    ends = sizes.gather(1, order).cumsum(-1)
    middles = ends - sizes.gather(1, order) / 2
    taken = middles <= wanted[:, None]
    taken[:, 0] = True
    picked = torch.zeros_like(taken).scatter(1, order, taken)
    return picked.gather(1, units % (most + 1)) & eligible


def _runs(eligible: torch.Tensor, masking: Masking, rng: torch.Generator) -> torch.Tensor:
    """Runs of the mean length ``span`` among the eligible tokens of each row."""
    import torch

    from variorum.objectives.spans import spans_of

    chosen = torch.zeros_like(eligible)
    for row, may in enumerate(eligible):
        places = may.nonzero().squeeze(-1)
        if len(places) == 1:
            chosen[row, places] = True
        elif len(places):
            for begin, end in spans_of(len(places), masking.rate, masking.span or 1.0, rng):
                chosen[row, places[begin:end]] = True
    return chosen


def fixed(
    ids: torch.Tensor, eligible: torch.Tensor, masking: Masking, symbols: Symbols, rng: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """One of the ``copies`` masks that each text has for good: hidden tokens, and the ids read in their place.

    A mask follows from the text and the number of the copy; which copy is read is drawn. BERT stored ten.
    """
    import torch

    assert masking.copies is not None
    copies = torch.randint(masking.copies, (len(ids),), generator=rng).tolist()
    rows = []
    for row, (text, copy) in enumerate(zip(ids, copies, strict=True)):
        told = hashlib.sha256(f"{copy}/{text[eligible[row]].tolist()}".encode()).digest()
        own = torch.Generator().manual_seed(int.from_bytes(told[:8], "big") >> 1)
        one = slice(row, row + 1)
        chosen = choose(ids[one], eligible[one], masking, symbols, own)
        rows.append((chosen, replaced(ids[one], chosen, masking, symbols, own)))
    return torch.cat([chosen for chosen, _ in rows]), torch.cat([read for _, read in rows])


def replaced(
    ids: torch.Tensor, chosen: torch.Tensor, masking: Masking, symbols: Symbols, rng: torch.Generator
) -> torch.Tensor:
    """What is read, [B, T]: of the chosen tokens ``mask`` hidden, ``random`` another word, the rest as they are."""
    import torch

    draw = torch.rand(ids.shape, generator=rng)
    read = ids
    if masking.mask > 0:
        read = torch.where(chosen & (draw < masking.mask), symbols.required("mask"), read)
    if masking.random > 0:
        other = _other(ids, symbols, rng)
        read = torch.where(chosen & (draw >= masking.mask) & (draw < masking.mask + masking.random), other, read)
    return read


def _other(ids: torch.Tensor, symbols: Symbols, rng: torch.Generator) -> torch.Tensor:
    """For each id another word, all alike likely."""
    import torch

    words = symbols.ordinary
    drawn = torch.randint(len(words) - 1, ids.shape, generator=rng)
    own = torch.searchsorted(words, ids.contiguous())
    return words[drawn + (drawn >= own).long()]
