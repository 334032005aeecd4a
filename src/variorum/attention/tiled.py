"""Flash attention as an algorithm, in plain torch (Dao et al. 2022): softmax(scores)·values without all scores at once.

A tile is a run of queries against a run of keys. Forward, the softmax of a run of queries is kept up to date from tile
to tile; backward, each tile is computed again, so that of all scores only one number for each query is kept. Tiles in
which nothing may be seen are left out, and position hooks see one tile at a time. Memory grows with the length of a
text, not with its square; so does time, where a window says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from variorum.attention.masks import Mask
from variorum.attention.scores import Scores, score_type
from variorum.parts.where import Where

ROWS, COLUMNS = 128, 256  # queries and keys of a tile: its scores stay in a processor's cache


def tiled(q: Tensor, k: Tensor, v: Tensor, scores: Scores, mask: Mask, where: Where) -> tuple[Tensor, None]:
    """Shapes as in every :class:`~variorum.attention.backends.Backend`; its gradient has no gradient of its own."""
    seed = int(torch.randint(2**62, ())) if scores.dropout else 0
    tables = scores.positions.tables(where) if scores.positions.weighs else ()
    return _Tiled.apply(_Tiling(scores, mask, where, seed), q, k, v, scores.asked, *tables), None


class _Inputs(NamedTuple):
    """The tensors of a call, or what of them one tile reads; ``tables`` are those of the position hooks."""

    q: Tensor
    k: Tensor
    v: Tensor
    asked: Tensor | None
    tables: tuple[Tensor, ...]

    @staticmethod
    def of(every: Sequence[Any]) -> _Inputs:
        q, k, v, asked, *tables = every
        return _Inputs(q, k, v, asked, tuple(tables))

    @property
    def every(self) -> tuple[Any, ...]:
        return (self.q, self.k, self.v, self.asked, *self.tables)

    def cut(self, tile: _Tile) -> _Inputs:
        asked = None if self.asked is None else self.asked[:, :, tile.rows]
        k, v = self.k[:, :, tile.columns], self.v[:, :, tile.columns]
        return _Inputs(self.q[:, :, tile.rows], k, v, asked, self.tables)


class _Tile(NamedTuple):
    """Which queries and keys, whether some are hidden from some, and what its dropout is drawn from."""

    rows: slice
    columns: slice
    masked: bool
    seed: int


@dataclasses.dataclass(frozen=True)
class _Tiling:
    """One call, cut: everything about it that is no tensor with a gradient."""

    scores: Scores
    mask: Mask
    where: Where
    seed: int

    def runs(self) -> Iterator[tuple[slice, list[_Tile]]]:
        """Each run of queries that sees anything, with its tiles."""
        some, every = (blocks.tolist() for blocks in self.mask.blocks(self.where, ROWS, COLUMNS))
        for row, (shown, whole) in enumerate(zip(some, every, strict=True)):
            rows, first = slice(row * ROWS, (row + 1) * ROWS), self.seed + row * len(shown)
            tiles = [
                _Tile(rows, slice(at * COLUMNS, (at + 1) * COLUMNS), not whole[at], first + at)
                for at, seen in enumerate(shown)
                if seen
            ]
            if tiles:
                yield rows, tiles

    def logits(self, tile: _Tile, cut: _Inputs) -> Tensor:
        """What the softmax of a tile sees, [B, H, rows, columns], in float32 or better; nothing is hidden yet."""
        products = _ungrouped(_grouped(cut.q, cut.k.shape[1]) @ cut.k.transpose(-1, -2), cut.q.shape[1])
        scores = dataclasses.replace(self.scores, asked=cut.asked)
        weighed = scores.weighed(products, cut.q, cut.k, self.where.tile(tile.rows, tile.columns, cut.tables))
        return weighed.to(score_type(weighed.dtype))

    def hide(self, tile: _Tile, logits: Tensor) -> Tensor:
        """-inf where a query may not see a key."""
        if not tile.masked:
            return logits
        seen = self.mask.visible(self.where.tile(tile.rows, tile.columns, ()))
        return logits.masked_fill(~seen, float("-inf"))

    def kept(self, tile: _Tile, weights: Tensor) -> Tensor | None:
        """What dropout multiplies a tile's weights by, the same whenever it is asked; ``None`` without dropout."""
        if not self.scores.dropout:
            return None
        generator = torch.Generator(weights.device).manual_seed(tile.seed)
        drawn = torch.rand(weights.shape, generator=generator, device=weights.device)
        return (drawn >= self.scores.dropout).to(weights.dtype) / max(1 - self.scores.dropout, 1e-12)


class _Tiled(torch.autograd.Function):
    """Kept for the gradient: the inputs, the output, and the logarithm of each query's sum of exponentials."""

    @staticmethod
    def forward(ctx: Any, tiling: _Tiling, *every: Any) -> Tensor:
        inputs = _Inputs.of(every)
        q, v = inputs.q, inputs.v
        out = v.new_zeros(*q.shape[:3], v.shape[3])
        sums = torch.full((*q.shape[:3], 1), float("inf"), dtype=score_type(q.dtype), device=q.device)
        for rows, tiles in tiling.runs():
            out[:, :, rows], sums[:, :, rows] = _softmax(tiling, tiles, inputs)
        ctx.tiling = tiling
        ctx.save_for_backward(out, sums, *every)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out, sums, *every = ctx.saved_tensors
        inputs, tiling = _Inputs.of(every), ctx.tiling
        learns = ctx.needs_input_grad[1:]
        totals = [torch.zeros_like(x, dtype=sums.dtype) if on else None for x, on in zip(every, learns, strict=True)]
        for rows, tiles in tiling.runs():
            own, sum_ = grad[:, :, rows], sums[:, :, rows]
            inner = (own * out[:, :, rows]).sum(-1, keepdim=True, dtype=sums.dtype)
            for tile in tiles:
                cut = inputs.cut(tile).every
                leaves = [x.detach().requires_grad_() if on else x for x, on in zip(cut, learns, strict=True)]
                found = _gradients(tiling, tile, leaves, own, sum_, inner)
                for total, part in zip(_Inputs.of(totals).cut(tile).every, found, strict=True):
                    if total is not None and part is not None:
                        total += part
        return None, *(None if total is None else total.to(x.dtype) for total, x in zip(totals, every, strict=True))


def _softmax(tiling: _Tiling, tiles: list[_Tile], inputs: _Inputs) -> tuple[Tensor, Tensor]:
    """Of one run of queries: the output, and the logarithm of each sum of exponentials, +inf where nothing is seen.

    The greatest score so far is taken off before the exponential; when a greater one comes, what there is shrinks.
    """
    q = inputs.cut(tiles[0]).q
    greatest = torch.full((*q.shape[:3], 1), float("-inf"), dtype=score_type(q.dtype), device=q.device)
    base = total = torch.zeros_like(greatest)
    mixed = total.expand(*q.shape[:3], inputs.v.shape[3])
    for tile in tiles:
        cut = inputs.cut(tile)
        logits = tiling.hide(tile, tiling.logits(tile, cut))
        top = torch.maximum(greatest, logits.amax(-1, keepdim=True))
        base = top.masked_fill(top == float("-inf"), 0.0)
        weights, shrunk = logits.sub_(base).exp_(), (greatest - base).exp()
        kept = tiling.kept(tile, weights)
        total = total * shrunk + weights.sum(-1, keepdim=True)
        mixed = mixed * shrunk + _mixed(weights if kept is None else weights * kept, cut.v)
        greatest = top
    seen = total > 0
    return torch.where(seen, mixed / total, 0.0).to(q.dtype), torch.where(seen, base + total.log(), float("inf"))


def _gradients(
    tiling: _Tiling, tile: _Tile, leaves: list[Any], grad: Tensor, sums: Tensor, inner: Tensor
) -> list[Tensor | None]:
    """Of those ``leaves`` that learn. ``grad`` is the output's, ``inner`` [B, H, rows, 1] its product with the output.

    The hooks are computed again with a gradient of their own, so that whatever they learned gets its share.
    """
    cut = _Inputs.of(leaves)
    with torch.enable_grad():
        logits = tiling.logits(tile, cut)
    weights = tiling.hide(tile, logits.detach()).sub(sums).exp_()
    by_kv, v = _grouped(grad, cut.v.shape[1]), cut.v.detach()
    of_weights = _ungrouped(by_kv @ v.transpose(-1, -2), grad.shape[1]).to(weights.dtype)
    kept, used = tiling.kept(tile, weights), weights
    if kept is not None:
        of_weights, used = of_weights * kept, weights * kept
    of_v = _grouped(used, v.shape[1]).to(grad.dtype).transpose(-1, -2) @ by_kv
    learning = [at for at, x in enumerate(leaves) if x is not None and x.requires_grad]
    gradients: list[Tensor | None] = [None] * len(leaves)
    if logits.requires_grad:
        wanted = [leaves[at] for at in learning]
        found = torch.autograd.grad(logits, wanted, weights * (of_weights - inner), allow_unused=True)
        for at, gradient in zip(learning, found, strict=True):
            gradients[at] = gradient
    return [*gradients[:2], of_v, *gradients[3:]]


def _grouped(x: Tensor, kv_heads: int) -> Tensor:
    """Query heads that read the same keys, one under the other: [B, H, T, d] -> [B, KV, H/KV · T, d]"""
    return x.unflatten(1, (kv_heads, -1)).flatten(2, 3)


def _ungrouped(x: Tensor, heads: int) -> Tensor:
    """[B, KV, H/KV · T, e] -> [B, H, T, e]"""
    return x.unflatten(2, (heads // x.shape[1], -1)).flatten(1, 2)


def _mixed(weights: Tensor, v: Tensor) -> Tensor:
    return _ungrouped(_grouped(weights, v.shape[1]).to(v.dtype) @ v, weights.shape[1]).to(weights.dtype)
