"""Attention whose weights are dropped in training: softmax and dropout in one loop, and no mask stored.

The products are torch's. Only the softmax is kept for the backward pass; what dropout left of it is made again. Texts
laid end to end are one operator, not one for each: a graph of many small ones costs more than they do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from variorum.kernels.train import Drops, drop, soften, unsoften


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dropping:
    """The factor of the scores, the share of weights that fall out, and whether a query sees only up to its own key."""

    scale: float
    rate: float
    causal: bool


def attend(q: Tensor, k: Tensor, v: Tensor, how: Dropping) -> Tensor:
    """q [B, H, Q, d], k [B, KV, K, d], v [B, KV, K, e] -> [B, H, Q, e]; Q is K where a query sees only up to its own
    key."""
    out: Tensor = _Attended.apply(q, k, v, how, Drops.drawn(how.rate))
    return out


def attend_texts(q: Tensor, k: Tensor, v: Tensor, lengths: tuple[int, ...], how: Dropping) -> Tensor:
    """The same within each of several texts end to end, [1, H, total, d] and [1, KV, total, …] -> [1, H, total, e]."""
    out: Tensor = _Texts.apply(q, k, v, lengths, how, Drops.drawn(how.rate))
    return out


class _Attended(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, how: Dropping, drops: Drops) -> Tensor:
        ctx.shapes, ctx.rest = (q.shape, k.shape, v.shape), (how, drops, q.shape[2])
        # The query heads that share a key head stand under one another: rows of one product.
        held = q.reshape(q.shape[0] * k.shape[1], -1, q.shape[-1]), k.flatten(0, 1), v.flatten(0, 1)
        out, weights = _forward(*held, *ctx.rest)
        ctx.save_for_backward(*held, weights)
        return out.view(*q.shape[:3], v.shape[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, keys, values, weights = ctx.saved_tensors
        grads = _backward(grad.reshape(len(weights), -1, grad.shape[-1]), rows, keys, values, weights, *ctx.rest)
        return (*(one.view(shape) for one, shape in zip(grads, ctx.shapes, strict=True)), None, None)


class _Texts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, lengths: tuple[int, ...], how: Dropping, drops: Drops
    ) -> Tensor:
        held = [x[0] for x in (q, k, v)]
        groups, kept = q.shape[1] // k.shape[1], []
        out = _heads_inside(q[0], v.shape[-1])
        for number, run in enumerate(_runs(lengths)):
            rows, keys, values = run.cut(held[0], groups), run.cut(held[1]), run.cut(held[2])
            made, weights = _forward(rows, keys, values, how, drops.next(number), run.length)
            run.put(made, out, groups)
            kept.append(weights)
        ctx.save_for_backward(*held, *kept)
        ctx.rest = lengths, how, drops, groups
        return out[None]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *kept = ctx.saved_tensors
        lengths, how, drops, groups = ctx.rest
        out, grads = grad[0], [_heads_inside(x, x.shape[-1]) for x in (q, k, v)]
        for number, (run, weights) in enumerate(zip(_runs(lengths), kept, strict=True)):
            held = run.cut(q, groups), run.cut(k), run.cut(v)
            made = _backward(run.cut(out, groups), *held, weights, how, drops.next(number), run.length)
            for one, whole, shared in zip(made, grads, (groups, 1, 1), strict=True):
                run.put(one, whole, shared)
        return (*(one[None] for one in grads), None, None, None)


@dataclasses.dataclass(frozen=True)
class _Run:
    """``texts`` neighbouring texts of ``length`` tokens from ``start`` on."""

    start: int
    texts: int
    length: int

    def cut(self, x: Tensor, groups: int = 1) -> Tensor:
        """[KV·groups, total, d] -> [KV·texts, groups·length, d]"""
        if self.texts == groups == 1:  # most runs, and each step saved here is one for every text and layer
            return x.narrow(1, self.start, self.length)
        return self._apart(x, groups).transpose(1, 2).reshape(-1, groups * self.length, x.shape[-1])

    def put(self, made: Tensor, x: Tensor, groups: int = 1) -> None:
        """The reverse of :meth:`cut`."""
        if self.texts == groups == 1:
            x.narrow(1, self.start, self.length).copy_(made)
            return
        self._apart(x, groups).copy_(made.view(-1, self.texts, groups, self.length, x.shape[-1]).transpose(1, 2))

    def _apart(self, x: Tensor, groups: int) -> Tensor:
        """[KV, groups, texts, length, d]"""
        own = x.narrow(1, self.start, self.texts * self.length)
        return own.unflatten(1, (self.texts, self.length)).unflatten(0, (-1, groups))


def _heads_inside(like: Tensor, channels: int) -> Tensor:
    """Room for [H, total, channels] that lies as [total, H·channels], as projections write and read it."""
    return like.new_empty(like.shape[1], like.shape[0], channels).transpose(0, 1)


def _runs(lengths: tuple[int, ...]) -> Iterator[_Run]:
    start = 0
    for length, same in groupby(lengths):
        run = _Run(start, len(list(same)), length)
        yield run
        start += run.texts * length


def _forward(
    rows: Tensor, keys: Tensor, values: Tensor, how: Dropping, drops: Drops, queries: int
) -> tuple[Tensor, Tensor]:
    """What rows [N, R, d] get of values [N, K, e], and the softmax [N, R, K] before dropout."""
    weights = torch.bmm(rows, keys.transpose(1, 2))
    left = soften(weights, how.scale, drops, queries if how.causal else 0)
    return torch.bmm(left, values), weights


def _backward(
    grad: Tensor, rows: Tensor, keys: Tensor, values: Tensor, weights: Tensor, how: Dropping, drops: Drops, queries: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of rows, keys and values."""
    of_values = torch.bmm(drop(weights, drops).transpose(1, 2), grad)
    of_scores = torch.bmm(grad, values.transpose(1, 2))
    unsoften(weights, of_scores, how.scale, drops, queries if how.causal else 0)
    return torch.bmm(of_scores, keys), torch.bmm(of_scores.transpose(1, 2), rows), of_values
