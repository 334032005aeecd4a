"""Attention in tiles with an online softmax (Dao et al. 2022) beside its definition: values, gradients, memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from variorum.attention.backends import BACKENDS
from variorum.attention.masks import Mask
from variorum.attention.scores import Scores
from variorum.checks.counting import kept
from variorum.checks.finding import Finding, above, below, near
from variorum.parts.where import Where

HEADS, CHANNELS = 8, 64
PLAIN = Scores(scale=CHANNELS**-0.5)
LENGTHS = (512, 1024)


def tiled_attention() -> Iterator[Finding]:
    """C6: tiles give the definition's values and gradients, and keep memory as the text, not as its square."""
    for dtype, bound in ((torch.float64, 1e-13), (torch.float32, 1e-5)):
        how = f"output and three gradients of {LENGTHS[0]} tokens in {dtype}: largest difference, not 0 as often told"
        apart = difference(PLAIN, LENGTHS[0], dtype)
        yield below("the definition's values and gradients", apart, bound, how)
    tiled, eager = (saved(name, LENGTHS[1]) / saved(name, LENGTHS[0]) for name in ("tiled", "eager"))
    how = f"bytes kept for the gradient at {LENGTHS[1]:,} tokens over those at {LENGTHS[0]}"
    yield near("tiles: twice the text keeps", tiled, 2.0, how, within=0.05)
    yield above("the definition: twice the text keeps", eager, 3.6, how)


def inputs(length: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Queries, keys and values [1, H, T, d] that learn."""
    generator = torch.Generator().manual_seed(length)
    shape = (1, HEADS, length, CHANNELS)
    return [torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for _ in range(3)]


def attended(backend: str, qkv: list[Tensor], scores: Scores = PLAIN) -> Tensor:
    """The output of causal attention."""
    query, key, value = qkv
    order = torch.arange(query.shape[2])[None]
    where = Where(order, order, order, order, padded=False)
    return BACKENDS[backend](query, key, value, scores, Mask(causal=True), where)[0]


def saved(backend: str, length: int, scores: Scores = PLAIN) -> int:
    """Bytes that one forward keeps for its gradient."""
    return kept(lambda: attended(backend, inputs(length), scores))


def difference(scores: Scores, length: int, dtype: torch.dtype = torch.float32) -> float:
    """The largest between tiles and the definition, of output and gradients, as a share of each one's largest value."""
    found = []
    for name in ("eager", "tiled"):
        qkv = inputs(length, dtype)
        out = attended(name, qkv, scores)
        found.append([out.detach(), *torch.autograd.grad(out.square().sum(), qkv)])
    return max(float((a - b).abs().max() / a.abs().max()) for a, b in zip(*found, strict=True))
