"""A dialect: the names and config keys under which a family publishes its models. Data only.

Rules map on-disk names to canonical names and back; keys map config.json to spec paths and back. One dialect reads
and writes. ``{i}`` in a name is a layer, ``{group}`` and ``{inner}`` its place under ALBERT's sharing, ``{j}`` an
expert.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from variorum.spec.model import Model

How = Literal["same", "transposed", "fused", "per_head", "per_head_out", "leading", "stacked", "paired", "shifted"]
FusedLayout = Literal["s h d", "g (r+2) d", "e s i"]


@dataclasses.dataclass(frozen=True)
class Rule:
    """One on-disk name and what it holds. A name is a tensor, or a prefix of tensors that keep their suffix.

    ``how``: "same"; "transposed" (2-D only); "fused" (several of ours along the first axis, in ``layout`` order:
    one after another; or for each of g key heads its r queries and then one head of every other tensor; or one after
    another within each expert);
    "per_head" ([D, H, d] for our [H·d, D]); "per_head_out" ([D, H, d] for [D, H·d]); "leading" (``ones``
    axes of length 1 in front of ours);
    "stacked" (one on-disk tensor per expert {j} for our [E, …]); "paired" (the two halves of each rotated head as
    neighbouring rows); "shifted" (``by`` is added to every value on disk).
    """

    disk: str
    ours: tuple[str, ...]
    how: How = "same"
    layout: FusedLayout = "s h d"
    transposed: bool = False
    ones: int = 0
    by: float = 0.0


def same(disk: str, ours: str) -> Rule:
    """Another name for the same tensors."""
    return Rule(disk, (ours,))


def transposed(disk: str, ours: str) -> Rule:
    """2-D tensors stored [in, out]."""
    return Rule(disk, (ours,), "transposed")


def leading(disk: str, ours: str, ones: int) -> Rule:
    """Tensors with ``ones`` axes of length 1 in front."""
    return Rule(disk, (ours,), "leading", ones=ones)


def fused(disk: str, *ours: str, layout: FusedLayout = "s h d", transposed: bool = False) -> Rule:
    """Several of our tensors in one on disk."""
    return Rule(disk, ours, "fused", layout, transposed)


def paired(disk: str, ours: str) -> Rule:
    """Projections whose rotated channels are stored as pairs (0, 1), (2, 3) …, where ours pair the halves of a head."""
    return Rule(disk, (ours,), "paired")


def shifted(disk: str, ours: str, by: float) -> Rule:
    """Tensors stored with ``by`` added to every value."""
    return Rule(disk, (ours,), "shifted", by=by)


@dataclasses.dataclass(frozen=True)
class Drop:
    """On-disk names (a regular expression) that hold nothing a model needs, and why."""

    pattern: str
    why: str


@dataclasses.dataclass(frozen=True)
class Codec:
    """How a config value becomes a spec value and back."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


IDENTITY = Codec(lambda value: value, lambda value: value)
_ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "swish": "silu", "gelu_fast": "gelu_tanh"}
ACTIVATION = Codec(lambda name: _ACTIVATIONS.get(name, name), lambda name: {"gelu_tanh": "gelu_new"}.get(name, name))


#: -1 and 0 both mean that distances are taken as they are.
CLAMP = Codec(lambda length: length if length > 0 else None, lambda clamp: -1 if clamp is None else clamp)
#: 0 and null both mean that nothing is hidden.
WINDOW = Codec(lambda width: width or None, lambda window: window)


def tied_to(table: str) -> Codec:
    """``tie_word_embeddings``: true names the table, false is an own matrix."""
    return Codec(lambda tied: table if tied else None, lambda tie: tie is not None)


@dataclasses.dataclass(frozen=True)
class Key:
    """A config key and the spec paths that hold its value. A missing key means the base spec's value.

    ``none`` says what a null means: the base's value ("base") or ``None`` itself ("none").
    """

    config: str
    paths: tuple[str, ...]
    codec: Codec = IDENTITY
    none: Literal["base", "none"] = "base"


@dataclasses.dataclass(frozen=True)
class Dialect:
    """How one ``model_type`` is published.

    Attributes:
        model_type: the value in config.json.
        base: the spec that the config fills in.
        prefix: what backbone names start with once there is a head.
        keys: scalar config keys.
        rules: backbone names, below the prefix. heads: head names, as they are.
        classes: published class name -> our heads.
        required: config values that must be these, since nothing else is implemented for this type; null and false
            are one.
        read: further paths computed from the config; write: their inverse.
        drops, duplicates: on-disk tensors that are ignored, or must equal one of ours.
        tables: on-disk tables that the spec computes -> the path of their sinusoids in the architecture. They are
            checked, and written as they were read.
        older: suffixes of early releases and what they are called now.
        prefixes: heads whose published class uses another prefix.
        choose: which of several dialects of this type a config means.
        by_name: the same, where only an on-disk name (a regular expression) shows it.
        part: the sub-config that describes this model, where it is a part of a larger one.
        publishes: models published so whose nearest ancestor with a dialect has another.
        read_only: why nothing is saved in it, where that is so.
    """

    model_type: str
    base: Model
    prefix: str
    keys: tuple[Key, ...]
    rules: tuple[Rule, ...]
    heads: tuple[Rule, ...]
    classes: Mapping[str, tuple[str, ...]]
    required: Mapping[str, object] = dataclasses.field(default_factory=dict)
    read: Callable[[Mapping[str, Any], Model], Mapping[str, object]] = lambda config, base: {}
    write: Callable[[Model], Mapping[str, object]] = lambda model: {}
    drops: tuple[Drop, ...] = ()
    duplicates: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    older: Mapping[str, str] = dataclasses.field(default_factory=dict)
    prefixes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    choose: Callable[[Mapping[str, Any]], Dialect] | None = None
    by_name: Mapping[str, Dialect] = dataclasses.field(default_factory=dict)
    part: str = ""
    publishes: tuple[str, ...] = ()
    read_only: str = ""

    def prefix_of(self, heads: Sequence[str]) -> str:
        """What backbone names start with for a model with these heads."""
        return next((self.prefixes[name] for name in heads if name in self.prefixes), self.prefix if heads else "")

    def but(self, **changes: Any) -> Dialect:
        """This dialect with some fields replaced: how a descendant is published."""
        return dataclasses.replace(self, **changes)
