"""Every field of a resolved spec, flipped to a neighbouring legal value, one at a time.

Which values neighbour which follows from the field's type: a number moves a little, a flag turns, a choice takes the
next one, a tuple loses or gains one member, a part becomes another kind of part with the fields that both have, an
optional value comes or goes. What `variorum.spec.rules` forbids is no neighbour.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from variorum.errors import NotFound
from variorum.spec import architecture as a
from variorum.spec import feedforward as f
from variorum.spec import heads as h
from variorum.spec import inputs as i
from variorum.spec import norms as n
from variorum.spec import positions as p
from variorum.spec import recipe as r
from variorum.spec import rules
from variorum.spec.attention import Attention, GlobalLocalAttention, LatentAttention
from variorum.spec.model import Model
from variorum.spec.part import Part
from variorum.spec.paths import lookup

#: What a part is, where a flip puts one that was not there. Fields it shares with the part it replaces are kept.
FRESH: dict[type, Part] = {
    a.Convolution: a.Convolution(kernel=3, activation="tanh", norm=n.LayerNorm(eps=1e-5)),
    a.Pooler: a.Pooler(),
    a.Sharing: a.Sharing(),
    Attention: Attention(heads=4, kv_heads=4, head_dim=10),
    GlobalLocalAttention: GlobalLocalAttention(heads=4, kv_heads=4, head_dim=10, window=4),
    LatentAttention: LatentAttention(
        heads=4, query_rank=18, kv_rank=14, nope_dim=10, rope_dim=8, value_dim=11, norm=n.RMSNorm(eps=1e-6)
    ),
    f.MLP: f.MLP(width=53, activation="relu"),
    f.GatedMLP: f.GatedMLP(width=53, activation="silu"),
    f.Experts: f.Experts(count=4, active=2, width=21, activation="silu", router=f.SoftmaxRouter()),
    f.SoftmaxRouter: f.SoftmaxRouter(),
    f.SigmoidRouter: f.SigmoidRouter(),
    i.Clusters: i.Clusters(cutoffs=(20,), divide=2),
    h.FirstToken: h.FirstToken(),
    h.BesideSeparator: h.BesideSeparator(side="before"),
    h.Transform: h.Transform(activation="gelu"),
    i.TokenInput: i.TokenInput(vocab=97),
    i.PatchInput: i.PatchInput(image=20, patch=5, positions=None),
    i.MelInput: i.MelInput(mels=6, positions=None),
    n.LayerNorm: n.LayerNorm(eps=1e-5),
    n.RMSNorm: n.RMSNorm(eps=1e-5),
    p.Learned: p.Learned(rows=64),
    p.Sinusoidal: p.Sinusoidal(),
    p.LinearScaling: p.LinearScaling(factor=2.0),
    p.NtkScaling: p.NtkScaling(factor=2.0),
    p.DynamicNtkScaling: p.DynamicNtkScaling(factor=2.0, original_length=16),
    p.Llama3Scaling: p.Llama3Scaling(factor=2.0, original_length=16),
    p.YarnScaling: p.YarnScaling(factor=2.0, original_length=16),
    p.Rotary: p.Rotary(),
    p.Alibi: p.Alibi(),
    p.RelativeBuckets: p.RelativeBuckets(buckets=8, max_distance=16),
    p.Disentangled: p.Disentangled(span=8),
    p.RecurrentRelative: p.RecurrentRelative(),
    r.Masking: r.Masking(),
    r.Generator: r.Generator(),
    r.Teacher: r.Teacher(),
    r.Contrast: r.Contrast(),
}
#: Texts that stand before a text.
PREFIXES = ("query", "passage")
#: What an absent number becomes, where 3 would not do.
NUMBERS = {"max_distance": 16, "buckets": 6}
#: The smallest step that is a likely mistake, by field.
STEPS: dict[str, Callable[[float], float]] = {
    "eps": lambda x: x * 10,
    "dropout": lambda x: x + 0.1,
    "transform_dropout": lambda x: x + 0.1,
    "fraction": lambda x: x / 2,
    "theta": lambda x: x * 1.01,
    "mask": lambda x: x / 2,
    "max_distance": lambda x: x * 2,
    "original_length": lambda x: x * 2,
    "kernel": lambda x: x + 2,
}
#: How many other numbers, and how many other choices, are tried.
ENOUGH = {int: 1, str: 2}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mutant:
    """A spec with one field flipped. ``owner`` is the part that declares ``field``, and who sees it."""

    path: str
    owner: type[Part]
    field: str
    before: object
    after: object
    spec: Model

    @property
    def declared(self) -> str:
        """The observer that the field names."""
        return declared(self.owner, self.field)

    def __str__(self) -> str:
        return f"{self.path}: {_said(self.before)} -> {_said(self.after)}"


def _said(value: object) -> str:
    return value.brief() if isinstance(value, Part) else str(value)


def declared(owner: type[Part], field: str) -> str:
    """Who is to see a field; a field that does not say is an error."""
    found = {one.name: one for one in dataclasses.fields(owner)}[field]
    if "seen_by" not in found.metadata:
        raise AssertionError(f"{owner.__name__}.{field} declares no observer")
    return str(found.metadata["seen_by"])


def mutants(spec: Model, heads: tuple[str, ...], under: tuple[str, ...] = ("",)) -> Iterator[Mutant]:
    """Every legal mutant of ``spec``, or those whose path begins so; of its heads, those of ``heads`` alone."""
    allowed, counted = _problems(spec), Counter[str]()
    for mutant in _Walk(spec, heads).part(spec, "", lambda new: typing.cast(Model, new)):
        kind = type(mutant.before) if type(mutant.before) is type(mutant.after) else type(None)
        if not mutant.path.startswith(under) or _same_window(mutant) or not _problems(mutant.spec) <= allowed:
            continue
        if counted[mutant.path] < ENOUGH.get(kind, 99):
            counted[mutant.path] += kind in ENOUGH
            yield mutant


def _same_window(mutant: Mutant) -> bool:
    """Keys at a distance of at most W/2: to an encoder an odd window is the even one below it."""
    after = mutant.after if mutant.field == "window" else None
    return isinstance(after, int) and after % 2 == 1 and after > 1 and mutant.path.startswith("architecture.encoder")


def _problems(spec: Model) -> set[tuple[str, str]]:
    try:
        return {(problem.rule, problem.where) for problem in rules.check(spec)}
    except NotFound as error:  # a pattern's rule sets a field of a part that is gone
        return {("no such field", error.where or "")}


Put = Callable[[Any], Model]


@dataclasses.dataclass(frozen=True)
class _Walk:
    spec: Model
    heads: tuple[str, ...]

    def part(self, node: Part, at: str, put: Put) -> Iterator[Mutant]:
        hints = hints_of(type(node))
        for field in dataclasses.fields(node):
            if declared(type(node), field.name) == "none":
                continue
            value = getattr(node, field.name)
            path = f"{at}.{field.name}" if at else field.name
            place = functools.partial(self._replace, node, field.name, put)
            for after in candidates(node, field.name, hints[field.name], value):
                yield self._mutant(path, type(node), field.name, value, after, place)
            yield from self.below(type(node), field.name, value, path, place)

    @staticmethod
    def _replace(node: Part, name: str, put: Put, new: object) -> Model:
        return put(dataclasses.replace(node, **{name: new}))

    @staticmethod
    def _mutant(path: str, owner: type[Part], field: str, before: object, after: object, put: Put) -> Mutant:
        return Mutant(path=path, owner=owner, field=field, before=before, after=after, spec=put(after))

    def below(self, owner: type[Part], field: str, value: object, path: str, put: Put) -> Iterator[Mutant]:
        """Mutants of what a field holds."""
        if isinstance(value, Part):
            yield from self.part(value, path, put)
        elif field == "heads" and isinstance(value, Mapping):
            for name in self.heads:
                yield self._mutant(path, owner, field, name, None, lambda _, name=name: put(_without(value, name)))
                yield from self.part(value[name], f"{path}.{name}", lambda new, name=name: put({**value, name: new}))
        elif isinstance(value, Mapping):
            for key, one in value.items():
                yield self._mutant(path, owner, field, key, None, lambda _, key=key: put(_without(value, key)))
                yield from self.part(one, f"{path}.{key}", lambda new, key=key: put({**value, key: new}))
        elif field == "pattern" and isinstance(value, tuple):
            yield from self.pattern(value, path, put)

    def pattern(self, rules_: tuple[a.At, ...], path: str, put: Put) -> Iterator[Mutant]:
        for index, rule in enumerate(rules_):
            where = f"{path}.{index}"

            def place(new: a.At, index: int = index) -> Model:
                return put((*rules_[:index], new, *rules_[index + 1 :]))

            without = (*rules_[:index], *rules_[index + 1 :])
            yield self._mutant(path, a.Stack, "pattern", rules_, without, put)
            yield self._mutant(
                f"{where}.layers", a.At, "layers", rule.layers, _moved(rule.layers),
                lambda new, rule=rule, place=place: place(dataclasses.replace(rule, layers=new)),
            )  # fmt: skip
            for key, value in rule.set.items():

                def set_to(new: object, rule: a.At = rule, key: str = key, place: Put = place) -> Model:
                    return place(dataclasses.replace(rule, set={**rule.set, key: new}))

                yield self._mutant(
                    f"{where}.set", a.At, "set", key, None,
                    lambda _, rule=rule, key=key, place=place: place(
                        dataclasses.replace(rule, set=_without(rule.set, key))
                    ),
                )  # fmt: skip
                yield from self.entry(path, key, value, f"{where}.set.{key}", set_to)

    def entry(self, pattern: str, key: str, value: object, path: str, put: Put) -> Iterator[Mutant]:
        """What one rule sets in its layers: a part, or a field of a part that the layer has."""
        if isinstance(value, Part):
            yield from self.part(value, path, put)
            return
        layer = typing.cast(a.Stack, lookup(self.spec, pattern.removesuffix(".pattern"))).layer(0)
        above, _, field = key.rpartition(".")
        owner = lookup(layer, above)
        assert isinstance(owner, Part)
        for after in candidates(owner, field, hints_of(type(owner))[field], value):
            yield self._mutant(path, type(owner), field, value, after, put)


def _without(table: Mapping[Any, object], key: object) -> dict[Any, object]:
    return {name: value for name, value in table.items() if name != key}


def _moved(layers: str) -> str:
    """The same rule one layer off."""
    if layers.startswith(":") and not layers.startswith("::"):
        return f":{int(layers[1:]) + 1}"
    if ":" in layers:
        start, rest = layers.split(":", 1)
        return f"{int(start) - 1 if start and int(start) else 1}:{rest}"
    first, *others = layers.split(",")
    return ",".join([str(int(first) + 1), *others])


@functools.cache
def hints_of(kind: type[Part]) -> dict[str, Any]:
    """The types of a part's fields."""
    return typing.get_type_hints(kind)


def candidates(node: Part, field: str, hint: Any, value: Any) -> Iterator[object]:
    """Values next to ``value``."""
    kinds = _alternatives(hint)
    optional, kinds = type(None) in kinds, tuple(kind for kind in kinds if kind is not type(None))
    if value is None:
        yield from (one for kind in kinds if (one := _fresh(node, field, kind)) is not None)
        return
    if optional and not _implied(node, field, value):
        yield None
    if isinstance(value, Part):
        others = [kind for kind in kinds if kind is not type(value)]
        yield from (_like(kind, value) for kind in others if kind in FRESH)
    elif isinstance(value, Mapping):
        if kinds and a.Convolution in typing.get_args(kinds[0]) and not value:
            yield {0: FRESH[a.Convolution]}
    else:
        yield from _scalars(field, kinds[0], value)


def _implied(node: Part, field: str, value: object) -> bool:
    """Whether an absent value says the same."""
    return field == "scale" and hasattr(node, "head_dim") and value == node.head_dim**-0.5


def _alternatives(hint: Any) -> tuple[Any, ...]:
    union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if union else (hint,)


def _fresh(node: Part, field: str, kind: Any) -> object:
    if kind in FRESH:
        return FRESH[kind]
    if typing.get_origin(kind) is Literal:
        return typing.get_args(kind)[0]
    if kind in (int, float):
        return NUMBERS.get(field, 3) if kind is int else 1.7
    if field == "tie":
        decodes = isinstance(node, h.AdaptiveSoftmax) or (isinstance(node, h.VocabularyHead) and not node.bias)
        return "decoder.input.table" if decodes else "encoder.input.table"
    return a_decoder(node) if kind is a.Stack and field == "decoder" else None


def a_decoder(node: Part) -> a.Stack | None:
    """A decoder as deep as the encoder beside which it is put."""
    encoder = getattr(node, "encoder", None)
    if encoder is None:
        return None
    block = dataclasses.replace(encoder.block, cross=FRESH[Attention])
    words = encoder.input if isinstance(encoder.input, i.TokenInput) else FRESH[i.TokenInput]
    inputs = dataclasses.replace(words, start_id=0)
    return dataclasses.replace(encoder, block=block, input=inputs, mask="causal", inserts={}, memory=0)


def _like(kind: type, old: Part) -> Part:
    """The other kind, as like the old part as it can be."""
    names = {field.name for field in dataclasses.fields(kind)}
    kept = {field.name: getattr(old, field.name) for field in dataclasses.fields(old) if field.name in names}
    hints = hints_of(kind)
    same = {name: value for name, value in kept.items() if hints[name] == hints_of(type(old))[name]}
    return dataclasses.replace(FRESH[kind], **same)


def _scalars(field: str, kind: Any, value: Any) -> Iterator[object]:
    origin = typing.get_origin(kind)
    if isinstance(value, bool):
        yield not value
    elif origin is Literal:
        options = typing.get_args(kind)
        at = options.index(value)
        yield from (*options[at + 1 :], *options[:at])
    elif origin is tuple and typing.get_origin(typing.get_args(kind)[0]) is Literal:
        members = typing.get_args(typing.get_args(kind)[0])
        yield from (tuple(one for one in value if one != gone) for gone in value)
        yield from (tuple(one for one in members if one in (*value, more)) for more in members if more not in value)
    elif origin is tuple and typing.get_args(kind)[0] is int:
        yield from (tuple(one for one in value if one != gone) for gone in value)
        yield from ((*value[:at], value[at] + 1, *value[at + 1 :]) for at in range(len(value)))
    elif isinstance(value, float):
        yield STEPS.get(field, lambda x: x * 2 if x else 0.1)(value)
    elif isinstance(value, int):
        if field in STEPS:
            yield int(STEPS[field](value))
        yield from (one for one in (value + 1, value * 2, value - 1, value // 2) if one > 0 and one != value)
    elif kind is str and field in PREFIXES:
        yield f"{value}now: "


__all__ = ["FRESH", "Mutant", "candidates", "declared", "hints_of", "mutants"]
