"""Low-rank adapters (Hu et al. 2021): beside a linear that stays as it is learns a product of two thin matrices.

An adapter is a child of its linear, ``lora``, and a hook adds what it says. So every name, every shared parameter and
every fast path of a model stays what it was, and a model whose adapters are merged runs as if it never had any. Which
linears take one is chosen by canonical names. Files of adapters: :mod:`variorum.checkpoint.adapters`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from variorum.errors import NotFound, UsageError, nearest
from variorum.parts.dropout import dropout

NAME = "lora"
ALL = "all"
"""The target that stands for every linear inside the layers."""


class LowRank(nn.Module):
    """scale · B·A·x, [..., in] -> [..., out].

    Args:
        a: [rank, in]. b: [out, rank], zero where the model is to start as it was.
        scale: of what is added; α/rank in the paper.
        dropout: of x, in training.
    """

    def __init__(self, a: Tensor, b: Tensor, *, scale: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(a), nn.Parameter(b)
        self.scale, self.dropout, self.merged = scale, dropout, False

    @classmethod
    def fresh(cls, linear: nn.Linear, name: str, *, rank: int, scale: float, dropout: float, seed: int) -> LowRank:
        """One that adds nothing yet; A is drawn uniformly up to 1/√in, by a generator of its own for each name."""
        digest = hashlib.sha256(f"{seed}|{name}|{rank}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        bound = 1 / math.sqrt(linear.in_features)
        a = torch.empty(rank, linear.in_features).uniform_(-bound, bound, generator=generator)
        b = torch.zeros(linear.out_features, rank)
        return cls(a.to(linear.weight), b.to(linear.weight), scale=scale, dropout=dropout)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.linear(dropout(x, self.dropout, self.training), self.a), self.b) * self.scale

    def delta(self) -> Tensor:
        """What it adds to the weight of its linear, [out, in]."""
        return (self.b @ self.a) * self.scale


def _say(linear: nn.Module, given: tuple[Any, ...], out: Tensor) -> Tensor:
    return out + cast("LowRank", linear.get_submodule(NAME))(given[0])


def _silence(linear: nn.Module) -> None:
    for key in [key for key, hook in linear._forward_hooks.items() if hook is _say]:
        del linear._forward_hooks[key]


def attach(linear: nn.Linear, adapter: LowRank) -> None:
    """Put ``adapter`` beside ``linear``, in place of one that is there."""
    _silence(linear)
    linear.add_module(NAME, adapter)
    linear.register_forward_hook(_say)


def remove(model: nn.Module) -> None:
    """Take every adapter off; what was merged stays in the weights."""
    for name in adapters(model):
        linear = model.get_submodule(name)
        _silence(linear)
        del linear._modules[NAME]


def adapters(model: nn.Module, *, merged: bool = True) -> dict[str, LowRank]:
    """The adapters of ``model`` by the names of their linears; those that are ``merged`` into them only if wanted."""
    found = {n.removesuffix(f".{NAME}"): m for n, m in model.named_modules() if isinstance(m, LowRank)}
    return {name: adapter for name, adapter in found.items() if merged or not adapter.merged}


def merge(model: nn.Module) -> None:
    """Add what adapters say to the weights beside them; they fall silent, but stay."""
    _move(model, merged=True)


def unmerge(model: nn.Module) -> None:
    """Take what :func:`merge` added out of the weights again, exact to rounding; adapters speak again."""
    _move(model, merged=False)


@torch.no_grad()
def _move(model: nn.Module, *, merged: bool) -> None:
    moved: set[int] = set()
    for name, adapter in adapters(model).items():
        linear = cast("nn.Linear", model.get_submodule(name))
        if adapter.merged == merged:
            continue
        adapter.merged = merged
        _silence(linear)
        if not merged:
            linear.register_forward_hook(_say)
        if id(linear.weight) not in moved:  # layers may share it
            moved.add(id(linear.weight))
            linear.weight.add_(adapter.delta(), alpha=1 if merged else -1)


def whole_weight(linear: nn.Linear) -> Tensor:
    """The weight that ``linear`` multiplies by, [out, in], with what an adapter beside it adds."""
    adapter = linear._modules.get(NAME)
    return linear.weight + adapter.delta() if isinstance(adapter, LowRank) and not adapter.merged else linear.weight


def chosen(model: nn.Module, targets: Sequence[str]) -> dict[str, nn.Linear]:
    """The linears that ``targets`` name: the end of a canonical name ("query", "cross.value"), or "all" in the layers.

    Raises:
        NotFound: nothing is called so. UsageError: what is called so takes no adapter, and why.
    """
    linears = {name: module for name, module in model.named_modules() if type(module) is nn.Linear}
    inside = {n: module for n, module in linears.items() if not n.startswith("heads.") and ".table." not in n}
    found: dict[str, nn.Linear] = {}
    for target in targets:
        mine = {
            name: module for name, module in inside.items()
            if (".layers." in name if target == ALL else f".{name}".endswith(f".{target}"))
        }  # fmt: skip
        if not mine:
            raise _refusal(model, target, linears)
        found |= mine
    return {name: module for name, module in inside.items() if name in found}


def _refusal(model: nn.Module, target: str, linears: dict[str, nn.Linear]) -> UsageError | NotFound:
    """Why nothing takes an adapter under this name."""
    ends = sorted({name.rpartition(".")[2] for name in linears if ".layers." in name})
    remedy = f"it has {', '.join(ends)}; or all"
    if any(f".{name}".endswith(f".{target}") for name in linears):
        return UsageError(f"{target} is part of a head, which learns whole or is a table's twin", remedy=remedy)
    for name, parameter in model.named_parameters():
        if f".{name.removesuffix('.weight')}".endswith(f".{target}"):
            kind = "a stack of experts' matrices" if parameter.dim() == 3 else "a table or a vector"
            return UsageError(f"{name} is {kind}; adapters stand beside linears", remedy=remedy)
    return NotFound(f"no linear is called {target!r}", remedy=nearest(target, ends) or remedy)
