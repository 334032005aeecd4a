"""Fresh models: every parameter drawn from its own generator, so no tensor's value depends on another's."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from variorum.model import Model
from variorum.spec.architecture import Architecture, Stack
from variorum.spec.attention import Attention, LatentAttention
from variorum.spec.model import Model as ModelSpec
from variorum.spec.norms import LayerNorm, Norm, RMSNorm

RESIDUAL = ("attention.out.weight", "cross.out.weight", "feedforward.down.weight", "experts.down", "shared.down.weight")

#: A table of words, or its part for a cluster of them.
TABLE = re.compile(r"\.input\.table\.(tables\.\d+\.)?weight$")


def empty(spec: ModelSpec, heads: Sequence[str] = (), *, kind: type[Model] = Model) -> Model:
    """The model without storage (meta device): shapes only."""
    with torch.device("meta"), _Unfilled():
        return kind(spec, heads)


class _Unfilled(TorchFunctionMode):
    """Modules fill their parameters when they are made. Here that has no storage to go to, and its first call on a
    meta tensor would import the compiler, which takes longer than loading a model."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def build(
    spec: ModelSpec, *, head: str | Sequence[str] | None = None, seed: int = 0, kind: type[Model] = Model
) -> Model:
    """A fresh model in ``eval()``.

    Args:
        spec: what to build.
        head: one head name, several, or ``None`` for hidden states.
        seed: with the canonical name and shape, decides each parameter's initial value.

    Raises:
        NotFound: the spec has no such head.
    """
    heads = (head,) if isinstance(head, str) else tuple(head or ())
    model = empty(spec, heads, kind=kind)
    assign(model, {name: initial(spec.architecture, name, p, seed) for name, p in model.named_tensors()})
    assign(model, {name: torch.zeros(value.shape) for name, value in model.named_constants()})
    return model.eval()


def assign(model: Model, values: dict[str, Tensor]) -> None:
    """Make ``values`` the model's parameters and constants, without copying, and rebind what is shared or tied."""
    for name, value in values.items():
        owner, _, leaf = name.rpartition(".")
        module = model.get_submodule(owner)
        if leaf in module._buffers:
            module._buffers[leaf] = value
            continue
        learns = getattr(module, leaf).requires_grad and value.is_floating_point()
        module._parameters[leaf] = nn.Parameter(value, requires_grad=learns)
    model.bind()


def initial(arch: Architecture, name: str, like: Tensor, seed: int) -> Tensor:
    """The initial value of one parameter, float32."""
    shape = tuple(like.shape)
    norm = norm_of(arch, name)
    if norm is not None:
        at_zero = name.endswith(".bias") or getattr(norm, "unit_offset", False)
        return torch.zeros(shape) if at_zero else torch.ones(shape)
    if name.endswith((".bias", "_bias", ".correction", "mix.weights")):
        return torch.zeros(shape)
    if name.endswith("mix.scale"):
        return torch.ones(shape)
    digest = hashlib.sha256(f"{seed}|{name}|{shape}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    return torch.randn(shape, generator=generator) * _std(arch, name, shape)


def norm_of(arch: Architecture, name: str) -> Norm | None:
    """The norm that a tensor belongs to."""
    part = part_of(arch, name)
    return part if isinstance(part, LayerNorm | RMSNorm) else None


def part_of(arch: Architecture, name: str) -> object:
    """The part that a tensor belongs to; canonical names follow the spec, with a module's own words in between."""
    node: Any = arch
    words = name.split(".")[:-1]
    while words:
        word = words.pop(0)
        if word == "layers" and isinstance(node, Stack):
            node = node.layer(int(words.pop(0)))
        elif word in ("attention_norms", "cross_norms", "feedforward_norms"):
            return node.layout.norm
        elif word in ("query_norm", "key_norm", "latent_norm"):
            node = node.norm if isinstance(node, LatentAttention) else node.qk_norm
        elif isinstance(node, Mapping):
            node = node.get(int(word) if word.isdigit() else word)
        else:
            node = getattr(node, word, node)
    return node


def _std(arch: Architecture, name: str, shape: tuple[int, ...]) -> float:
    std = arch.init.std
    if arch.init.table is not None and TABLE.search(name):
        return arch.init.table
    if std is None:
        # A table row is read whole: its fan-in is its width.
        std = 1.0 / math.sqrt(shape[-1])
        part = part_of(arch, name)
        if name.endswith(".query.weight") and isinstance(part, Attention):
            std *= part.head_dim**-0.5 / part.score_scale
    if arch.init.residual == "depth" and name.endswith(RESIDUAL):
        std /= math.sqrt(2 * arch.main.depth)
    return std
