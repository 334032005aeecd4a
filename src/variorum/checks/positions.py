"""What positions say: that distance alone counts, and where they end."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from variorum.checks.finding import Finding, NotApplicable, above, below, equal, near
from variorum.checks.subjects import read, words
from variorum.errors import UsageError
from variorum.model import Model
from variorum.parts.positions import sinusoids
from variorum.parts.rotary import rotary_tables, rotate
from variorum.spec.positions import Rotary
from variorum.spec.size import longest

PRODUCTS = {0: 256.0, 1: 249.102, 5: 189.597, 50: 131.091, 200: 89.572}
"""Distance, and Σ cos(ω_i · distance) over the 256 frequencies of 512 channels (Vaswani et al. 2017, 3.5)."""
RISES = 44
PAIRS = ((5, 3), (105, 103), (1005, 1003))


def sinusoid_distance() -> Iterator[Finding]:
    """C7: the product of two sinusoidal positions depends on their distance alone, until something is learned."""
    table = sinusoids(torch.arange(1400), 512, 10_000.0, halves=False, dtype=torch.float64)
    products = {distance: (table[: 1400 - distance] * table[distance:]).sum(-1) for distance in PRODUCTS}
    spread = max(float(one.max() - one.min()) for one in products.values())
    how = f"all pairs of 1,400 positions of 512 channels at distances {', '.join(map(str, PRODUCTS))}"
    yield below("products at one distance are one number", spread, 1e-11, how)
    found = [float(one[0]) for one in products.values()]
    yield near("products by distance", found, list(PRODUCTS.values()), how, within=5e-4)
    rises = int(((table[:400] @ table[0]).diff() > 0).nonzero()[0]) + 1
    how = "the first distance at which they rise, often told as none"
    yield equal("products do not fall all the way", rises, RISES, how)
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 512, 512, generator=generator, dtype=torch.float64) / 512**0.5
    scores = ((table[:-5] @ query) * (table[5:] @ key)).sum(-1)
    how = "the spread of scores at distance 5, with a random matrix for queries and another for keys"
    yield above("projections undo it", float(scores.std()), 1.0, how)


def rope_distance(model: Model) -> Iterator[Finding]:
    """C7: a rotary score depends on the distance alone, and rotation keeps lengths."""
    layer = model.spec.architecture.main.layer(0)
    if not isinstance(layer.positions, Rotary):
        raise NotApplicable(f"{model.spec.name} does not rotate", remedy="name llama or modernbert")
    turned = getattr(layer.attention, "rope_dim", layer.attention.head_dim)
    yield from rotary_distance(layer.positions, turned)


def rotary_distance(rotary: Rotary, channels: int) -> Iterator[Finding]:
    """The same of heads of so many channels."""
    q, k = torch.randn(2, channels, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores = [float(_turned(q, m, rotary) @ _turned(k, n, rotary)) for m, n in PAIRS]
    told = ", ".join(f"{m} and {n}" for m, n in PAIRS)
    how = f"one query and one key of {channels} channels at positions {told}: largest less smallest score"
    yield below("scores at one distance are one number", max(scores) - min(scores), 1e-12, how)
    other = float(_turned(q, 5, rotary) @ _turned(k, 4, rotary))
    yield above("at another distance they differ", abs(other - scores[0]), 1e-2, "positions 5 and 4 against 5 and 3")
    lengths = [abs(float(_turned(q, at, rotary).norm() / q.norm()) - 1) for at in (1, 77, 100_000)]
    yield below("rotation keeps the length", max(lengths), 1e-12, "norm of a rotated query over its own, less 1")


def _turned(x: Tensor, position: int, rotary: Rotary) -> Tensor:
    """``x`` [d] at ``position``."""
    tables = rotary_tables(rotary, int(len(x) * rotary.fraction), torch.tensor([[position]]), torch.float64)
    return rotate(x[None, None, None], *tables, rotary.interleaved)[0, 0, 0]


@torch.no_grad()
def position_limit(model: Model) -> Iterator[Finding]:
    """C15: a learned table takes as many tokens as it has rows for, and refuses one more."""
    limit = longest(model.spec)
    if limit is None:
        raise NotApplicable(f"{model.spec.name} has no table of positions", remedy="name bert or gpt2")
    whole = read(model, words(1, limit)).last_hidden_state
    how = f"a text of exactly {limit} tokens, and one of {limit + 1}"
    yield equal("a text as long as the table is read", bool(whole.isfinite().all()), True, how)
    try:
        read(model, words(1, limit + 1))
    except UsageError as error:
        refused = str(error)
    else:
        refused = "read all the same"
    said = f"{limit + 1} tokens is longer than the {limit}"
    yield equal("a longer one is refused with the limit", said if said in refused else refused, said, how)
