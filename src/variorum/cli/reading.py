"""A command line read from the signature of its verb: what most command lines are.

It understands a part of what :mod:`variorum.cli.full` does, and in the same way. What it is not sure of, and every
mistake, it leaves to that one, whose parser takes longer to import than most verbs take to answer.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Annotated, Any, Literal, NamedTuple, Union

NUMBERS = {int: re.compile(r"[0-9]+"), float: re.compile(r"[0-9]+(\.[0-9]+)?(e-?[0-9]+)?")}
REQUIRED = object()


class Option(NamedTuple):
    """What a parameter's type does not say about it; stands in ``Annotated``.

    Args:
        name: its flag, where that is not the parameter's name.
        many: one flag takes all the words that follow it.
        help: what it is, where several verbs have it; a docstring says more of it where there is more to say.
    """

    name: str = ""
    many: bool = False
    help: str = ""


class Verbs(NamedTuple):
    """A verb of several verbs, as in ``variorum study quickstart``."""

    summary: str
    verbs: Mapping[str, Callable[..., object]]


class Field(NamedTuple):
    """One thing that a command line can say.

    Attributes:
        name: of the parameter, or of the field of the parameter ``of``.
        flag: how it is named; what it is called among the arguments otherwise.
        type: of one value.
        place: a word that stands alone, all further ones, a flag with a value, or a flag without.
        several: it collects its values. many: it takes all words that follow. default: ``REQUIRED`` if there is none.
        help: what its type says of it.
    """

    name: str
    flag: str
    type: type
    place: Literal["argument", "rest", "option", "switch"]
    default: object
    choices: tuple[str, ...] = ()
    several: bool = False
    many: bool = False
    of: str = ""
    help: str = ""


def fields(command: Callable[..., object]) -> tuple[Field, ...] | None:
    """What a command line of ``command`` can say, in order; ``None`` if that is beyond this reader."""
    found: list[Field | None] = []
    for name, kind, hint, default in parameters(command):
        if dataclasses.is_dataclass(hint):
            hints = typing.get_type_hints(hint, include_extras=True)
            found += [_field(f.name, "named", hints[f.name], f.default, of=name) for f in dataclasses.fields(hint)]
        else:
            found.append(_field(name, kind, hint, default))
    whole = tuple(field for field in found if field is not None)
    return whole if len(whole) == len(found) else None


def parameters(command: Callable[..., object]) -> list[tuple[str, Literal["plain", "rest", "named"], Any, object]]:
    """Name, kind, type and default of every parameter."""
    code: types.CodeType = command.__code__
    hints, names = resolved(command), code.co_varnames
    plain, named = names[: code.co_argcount], names[code.co_argcount :][: code.co_kwonlyargcount]
    defaults = dict(zip(reversed(plain), reversed(command.__defaults__ or ()), strict=False))
    defaults |= command.__kwdefaults__ or {}
    rest = names[code.co_argcount + code.co_kwonlyargcount :][: bool(code.co_flags & 4)]
    return [
        *((name, "plain", hints[name], defaults.get(name, REQUIRED)) for name in plain),
        *((name, "rest", hints[name], ()) for name in rest),
        *((name, "named", hints[name], defaults.get(name, REQUIRED)) for name in named),
    ]


def resolved(command: Callable[..., object]) -> dict[str, Any]:
    """The types of the parameters. What the command returns is nobody's business, and may not be importable."""
    taken = {name: hint for name, hint in command.__annotations__.items() if name != "return"}
    known: dict[str, Any] = command.__globals__
    return typing.get_type_hints(types.SimpleNamespace(__annotations__=taken), known, include_extras=True)


def _field(name: str, kind: str, hint: Any, default: object, of: str = "") -> Field | None:
    option = Option()
    if typing.get_origin(hint) is Annotated:
        hint, *marks = typing.get_args(hint)
        if not all(isinstance(mark, Option) for mark in marks):
            return None
        option = marks[0]
    if typing.get_origin(hint) in (Union, types.UnionType):
        inner = [one for one in typing.get_args(hint) if one is not types.NoneType]
        if len(inner) != 1:
            return None
        hint = inner[0]
    several = typing.get_origin(hint) is tuple
    if several:
        hint = typing.get_args(hint)[0]
    choices: tuple[Any, ...] = ()
    if typing.get_origin(hint) is Literal:
        choices, hint = typing.get_args(hint), str
    if hint not in (str, int, float, bool) and not _is_path(hint):
        return None
    place: Any = {"plain": "argument", "rest": "rest", "named": "switch" if hint is bool else "option"}[kind]
    flag = option.name or (f"--{name.replace('_', '-')}" if kind == "named" else name.upper().replace("_", "-"))
    default = REQUIRED if default is dataclasses.MISSING else default
    several = several or kind == "rest"
    return Field(name, flag, hint, place, default, choices, several, option.many, of, option.help)


def _is_path(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, PathLike)


def read(command: Callable[..., object], words: Sequence[str]) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments that ``words`` give ``command``, by place and by name; ``None`` if that is not plain."""
    known = fields(command)
    values = None if known is None else _values(known, words)
    if known is None or values is None:
        return None
    if any(field.default is REQUIRED and field not in values for field in known):
        return None
    by_place = [values.get(f, f.default) for f in known if f.place == "argument"]
    rest: Sequence[Any] = next((values.get(f, ()) for f in known if f.place == "rest"), ())
    by_name = {f.name: values[f] for f in known if f in values and f.place in ("option", "switch") and not f.of}
    owners = {name: hint for name, _, hint, _ in parameters(command) if dataclasses.is_dataclass(hint)}
    for name, owner in owners.items():
        given = {field.name: values[field] for field in known if field.of == name and field in values}
        if given:
            by_name[name] = typing.cast("Callable[..., object]", owner)(**given)
    return [*by_place, *rest], by_name


def _values(known: Sequence[Field], words: Sequence[str]) -> dict[Field, Any] | None:
    """What the words say of each field, or ``None``."""
    flags = {field.flag: field for field in known if field.place in ("option", "switch")}
    places = [field for field in known if field.place in ("argument", "rest")]
    found: dict[Field, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not _is_flag(word):
            if not places:
                return None
            field, given = places[0], [word]
            places = places[field.place == "argument" :]
        else:
            flag, equals, value = word.partition("=")
            if flag not in flags:
                return None
            field = flags[flag]
            if field.place == "switch":
                if equals or field in found:
                    return None
                found[field] = True
                continue
            given = [value] if equals else left[: _taken(left, field.many)]
            left = left if equals else left[len(given) :]
        if not given or not all(_sure(field, one) for one in given) or (field in found and not field.several):
            return None
        made = [field.type(one) for one in given]
        found[field] = (*found.get(field, ()), *made) if field.several else made[0]
    return found


def _is_flag(word: str) -> bool:
    """Whether a word is no value; a dash alone is one, and stands for stdin."""
    return word.startswith("-") and word != "-"


def _taken(words: Sequence[str], many: bool) -> int:
    """How many of the words that follow a flag are its values."""
    here = next((place for place, word in enumerate(words) if _is_flag(word)), len(words))
    return here if many else min(here, 1)


def _sure(field: Field, word: str) -> bool:
    """Whether a word can only mean what it looks like."""
    if field.choices:
        return word in field.choices
    return field.type not in NUMBERS or NUMBERS[field.type].fullmatch(word) is not None
