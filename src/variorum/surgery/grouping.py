"""Fewer heads of keys and values in a trained decoder, each the mean of those it stands for (Ainslie et al. 2023).

The cache shrinks at once. What the model loses it gets back by training on, for some 5 % of its steps in the paper;
where the heads of a group were alike, it loses nothing.
"""

from __future__ import annotations

from typing import TypeVar, cast

from torch import Tensor

from variorum.builder import assign, empty
from variorum.errors import UsageError
from variorum.model import Model
from variorum.spec.attention import Attention

M = TypeVar("M", bound=Model)
SUBLAYERS = ("attention", "cross")


def grouped(model: M, kv_heads: int) -> M:
    """``model`` with so many heads of keys and values in its decoder; it shares all other tensors with ``model``.

    Raises:
        UsageError: there is no decoder with such heads, or these do not fall into so many groups of one size.
    """
    stack = model.spec.architecture.decoder
    parts = {} if stack is None else {name: getattr(stack.block, name) for name in SUBLAYERS}
    parts = {name: part for name, part in parts.items() if isinstance(part, Attention)}
    if not parts:
        raise UsageError(f"{model.spec.name} has no decoder with heads of keys", remedy="give gpt2, llama or their kin")
    for part in parts.values():
        if kv_heads < 1 or part.kv_heads % kv_heads:
            raise UsageError(
                f"{part.kv_heads} heads of keys do not fall into {kv_heads} groups of one size",
                remedy=f"give a number that divides {part.kv_heads}",
            )
    paths = {f"architecture.decoder.block.{name}.kv_heads": kv_heads for name in parts}
    made = empty(model.spec.set(paths), model.head_names, kind=type(model))
    channels = {name: part.head_dim for name, part in parts.items()}
    values = {
        name: _pooled(model.get_parameter(name), like, channels.get(name.split(".")[-3], 1))
        for name, like in made.named_tensors()
    }
    assign(made, values | dict(model.named_constants()))
    made.tokenizer, made.label_names, made.origin = model.tokenizer, model.label_names, model.origin
    return cast(M, made.train(model.training))


def _pooled(own: Tensor, like: Tensor, channels: int) -> Tensor:
    """The tensor in the new shape: rows of heads as the means of their groups, [KV · d, D] -> [G · d, D]."""
    if own.shape == like.shape:
        return own
    times = own.shape[0] // like.shape[0]
    return own.detach().unflatten(0, (-1, times, channels)).mean(1).flatten(0, 1)
