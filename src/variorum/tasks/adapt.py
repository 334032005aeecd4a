"""How much of a model learns a task: all of it, its head, its upper layers, each layer at its own rate, or adapters.

Each way is a small part that says which parameters learn and at which share of the common rate. What is frozen gets no
gradient and no state in the optimiser; what lies below everything that learns keeps no activations either.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from variorum.errors import NotFound, UsageError, nearest

if TYPE_CHECKING:
    from torch import nn

    from variorum.model import Model


class Adapt(ABC):
    """One way to adapt a model. ``prepare``, then train what ``groups`` names, then ``finish``."""

    @abstractmethod
    def groups(self, model: Model) -> dict[str, float]:
        """The parameters that learn, by their names in the prepared model, each with its share of the rate.

        Raises:
            UsageError: the model has not what this way needs.
        """

    def prepare(self, model: Model, *, seed: int = 0) -> None:
        """Make ``model`` ready to be trained in place; ``seed`` decides what is new in it.

        Raises:
            UsageError: the model has not what this way needs, or nothing of it would learn.
        """
        _require_plain(model)
        learning = self.groups(model)
        if not learning:
            raise UsageError(f"nothing of {model.spec.name} would learn by {self}", remedy="adapt more of it")
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in learning)

    def finish(self, model: Model) -> None:
        """Leave a model that runs and saves like any other."""
        return


@dataclass(frozen=True)
class Full(Adapt):
    """Everything learns."""

    def groups(self, model: Model) -> dict[str, float]:
        return dict.fromkeys(_learnable(model), 1.0)


@dataclass(frozen=True)
class HeadOnly(Adapt):
    """The head learns, and what the checkpoint did not hold; all states stay as they are."""

    def groups(self, model: Model) -> dict[str, float]:
        fresh = () if model.origin is None else model.origin.fresh
        return {name: 1.0 for name in _learnable(model) if name.startswith("heads.") or name in fresh}


@dataclass(frozen=True)
class Freeze(Adapt):
    """The first ``layers`` stay as they are (an encoder's before a decoder's), and ``embeddings`` where told."""

    layers: int
    embeddings: bool = True

    def groups(self, model: Model) -> dict[str, float]:
        places, top = rungs(model), depth(model)
        if not 0 <= self.layers <= top:
            raise UsageError(f"freezing {self.layers} of {top} layers", remedy=f"freeze 0 to {top}")
        frozen = set(range(0 if self.embeddings else 1, self.layers + 1))
        if self.layers and frozen.isdisjoint(set(places.values()) - {0}):
            raise UsageError(
                f"the first {self.layers} layers of {model.spec.name} share their weights with later ones",
                remedy=f"freeze all {top}, or none",
            )
        return {name: 1.0 for name in _learnable(model) if places[name] not in frozen}


@dataclass(frozen=True)
class LayerDecay(Adapt):
    """The head learns at the full rate, and each layer below at ``factor`` of the one above, embeddings the least.

    ELECTRA's released code decays so (Clark et al. 2020). Weights that layers share learn as the highest of them.
    """

    factor: float = 0.9

    def __post_init__(self) -> None:
        if not 0 < self.factor <= 1:
            raise UsageError(f"a layer decay of {self.factor:g}", remedy="give a factor above 0, up to 1")

    def groups(self, model: Model) -> dict[str, float]:
        places, top = rungs(model), depth(model) + 1
        return {name: self.factor ** (top - places[name]) for name in _learnable(model)}


@dataclass(frozen=True)
class Lora(Adapt):
    """Low-rank adapters learn (Hu et al. 2021), a head over labels, and what the checkpoint did not hold.

    Args:
        rank: of each adapter.
        alpha: what adapters add is scaled by alpha / rank.
        targets: ends of canonical names of linears ("query", "cross.value"), or "all" in the layers. Experts that
            are stacked in one tensor take none, nor do tables and heads.
        dropout: of what an adapter reads.
    """

    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ("query", "value")
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.rank < 1 or not 0 <= self.dropout < 1 or not self.targets:
            raise UsageError(f"{self} makes no adapter", remedy="a rank of 1 at least, dropout below 1, some targets")

    def prepare(self, model: Model, *, seed: int = 0) -> None:
        """Put fresh adapters beside the targets; a model that has adapters learns on with those."""
        from variorum.parts.lora import LowRank, adapters, attach, chosen, unmerge

        _require_plain(model)
        unmerge(model)
        if not adapters(model):
            how: dict[str, Any] = {"rank": self.rank, "scale": self.alpha / self.rank, "dropout": self.dropout}
            for name, linear in chosen(model, self.targets).items():
                attach(linear, LowRank.fresh(linear, name, **how, seed=seed))
            model.bind()
        super().prepare(model, seed=seed)

    def groups(self, model: Model) -> dict[str, float]:
        from variorum.checkpoint.adapters import whole
        from variorum.parts.lora import NAME

        beside = set(whole(model))
        return {name: 1.0 for name in _learnable(model) if name in beside or f".{NAME}." in name}

    def finish(self, model: Model) -> None:
        """Merge the adapters into the weights; they can still be saved, or taken out again."""
        from variorum.parts.lora import merge

        merge(model)


WAYS: Mapping[str, type[Adapt]] = {
    "full": Full, "head": HeadOnly, "freeze": Freeze, "decay": LayerDecay, "lora": Lora,
}  # fmt: skip
"""Every way, by the word for it."""


def read(text: str) -> Adapt:
    """A way as a word and its settings: ``full``, ``head``, ``freeze:6``, ``decay:0.9``, ``lora:rank=16,targets=all``.

    A setting without a name is the first one; several targets are joined by ``+``.

    Raises:
        NotFound: no such way or setting. UsageError: a setting that is no value of its kind.
    """
    word, _, rest = text.partition(":")
    if word not in WAYS:
        raise NotFound(f"no way to adapt is called {word!r}", remedy=nearest(word, WAYS) or ", ".join(WAYS))
    way = WAYS[word]
    fields = {field.name: str(field.type) for field in dataclasses.fields(way)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for part in rest.split(",") if rest else []:
        name, equals, value = part.partition("=")
        if not equals:
            name, value = next(iter(fields), ""), part
        if name not in fields:
            raise NotFound(
                f"{word} has no setting {name or value!r}",
                remedy=nearest(name, fields) or ", ".join(fields) or "it has none",
            )
        given[name] = _value(value, fields[name], text)
    try:
        return way(**given)
    except TypeError:
        raise UsageError(f"{text!r} leaves out {next(iter(fields))}", remedy=f"say {word}:VALUE") from None


def _value(text: str, kind: str, where: str) -> object:
    if kind.startswith("tuple"):
        return tuple(text.split("+"))
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    try:
        return {"int": int, "float": float}[kind](text)
    except (KeyError, ValueError):
        raise UsageError(f"{text!r} is no {kind}", where=where) from None


def _require_plain(model: Model) -> None:
    """See that the weights are numbers that gradients reach and adapters can be added to."""
    if model.holds_codes:
        raise UsageError(
            f"{model.spec.name} holds its weights as int8, beside which nothing learns",
            remedy="load it without weights='int8': what int8 files hold is then read as the numbers it stands for",
        )


def depth(model: Model) -> int:
    """How many layers a text passes on its way to the head."""
    arch = model.spec.architecture
    return sum(stack.depth for stack in arch.stacks.values()) + (arch.recurrent.depth if arch.recurrent else 0)


def rungs(model: Model) -> dict[str, int]:
    """How high each parameter stands: 0 for inputs, 1 for the first layer, ``depth + 1`` for poolers and heads.

    What layers share stands where the highest of them does; a table that a head shares stands with the inputs.
    """
    arch, top = model.spec.architecture, depth(model)
    below, shared, passed = {"recurrent": 0}, dict[int, int](), 0
    for name, stack in arch.stacks.items():
        below[name], passed = passed, passed + stack.depth
    for name, parameter in model.named_parameters(remove_duplicate=False):
        part, _, rest = name.partition(".")
        kind, _, rest = rest.partition(".")
        if kind in ("layers", "inserts"):
            rung = below[part] + int(rest.partition(".")[0]) + 1
            shared[id(parameter)] = max(rung, shared.get(id(parameter), 0))
        elif part not in below:
            shared.setdefault(id(parameter), top + 1)
        else:
            shared.setdefault(id(parameter), below[part] + arch.stacks[part].depth if kind == "final_norm" else 0)
    return {name: shared[id(parameter)] for name, parameter in model.named_parameters()}


def _learnable(model: Model) -> dict[str, nn.Parameter]:
    """Every parameter that training may change: a router's correction is set by another rule."""
    from variorum.parts.experts import SigmoidRouter

    fixed = {id(part.correction) for part in model.modules() if isinstance(part, SigmoidRouter)}
    return {name: parameter for name, parameter in model.named_parameters() if id(parameter) not in fixed}
