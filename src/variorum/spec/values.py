"""Values of a spec from text or from TOML: a word, a number, a list, or a part by its name, as the field has it.

Text is written as Python would write it, without quotes where a word will do: ``2``, ``1e-6``, ``gelu``, ``none``,
``[query, key]``, ``Rotary(theta=500000)``, ``pre(RMSNorm(eps=1e-6))``. In TOML a part may be a table with its ``kind``.
Nothing is evaluated: names are looked up among the kinds that the field may hold.
"""

from __future__ import annotations

import ast
import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Union

from variorum.errors import NotFound, UsageError, nearest
from variorum.spec import architecture
from variorum.spec.architecture import At, Layer
from variorum.spec.heads import HEAD_NAMES
from variorum.spec.model import COMPARED, Model
from variorum.spec.part import Part
from variorum.spec.paths import lookup

#: Functions that make a layout.
MAKERS: tuple[Any, ...] = tuple(
    getattr(architecture, name) for name in ("post", "pre", "sandwich", "parallel") if hasattr(architecture, name)
)
_MEANT = {"none": None, "null": None, "true": True, "yes": True, "false": False, "no": False}


@dataclasses.dataclass(frozen=True)
class Named:
    """A part that is meant: its kind, and its fields as they were given; ``plain`` are those given without a name."""

    kind: str
    fields: Mapping[str, object] = dataclasses.field(default_factory=dict)
    plain: tuple[object, ...] = ()


def whole_path(model: Model, path: str) -> str:
    """``path`` from the root of a model; ``architecture.`` may be left out.

    Raises:
        NotFound: no such place; the nearest name is given.
    """
    first = path.partition(".")[0]
    inner = {f.name for f in dataclasses.fields(model.architecture)}
    if first not in COMPARED and first not in inner:
        raise NotFound(f"a model has no {first!r} to set", where=path, remedy=nearest(first, [*COMPARED, *inner]))
    path = path if first in COMPARED else f"architecture.{path}"
    for absent, other in (("encoder", "decoder"), ("decoder", "encoder")):
        start = f"architecture.{absent}."
        if path.startswith(start) and absent not in model.architecture.stacks and other in model.architecture.stacks:
            remedy = f"its layers are at {other}.{path.removeprefix(start)}"
            raise NotFound(f"{model.name} has no {absent}", where=path, remedy=remedy)
    above, _, last = path.rpartition(".")
    if not isinstance(lookup(model, above) if above else model, Mapping):
        lookup(model, path)
    elif above == "architecture.heads" and last not in HEAD_NAMES:
        raise NotFound(f"no head is called {last!r}", where=path, remedy=nearest(last, HEAD_NAMES))
    return path


def value_at(model: Model, path: str, given: object) -> object:
    """What ``given`` means at ``path``, a whole path of ``model``.

    Args:
        model: where the field is.
        path: as :func:`whole_path` gives it.
        given: text, or what TOML or JSON hold.

    Raises:
        UsageError: the field cannot hold it. NotFound: it names a field or a kind that does not exist.
    """
    node: object = model
    hint: Any = Model
    above = lookup(model, path.rpartition(".")[0]) if "." in path else None
    if isinstance(above, Mapping) and isinstance(given, str) and _MEANT.get(given.lower(), "") is None:
        lookup(model, path)  # what is not there cannot be taken away
        return None
    for name in path.split("."):
        if isinstance(node, Mapping):
            table = next(one for one in _alternatives(hint) if typing.get_origin(one) is not None)
            hint = typing.get_args(table)[1]
            node = next((value for key, value in node.items() if str(key) == name), None)
        else:
            hint, node = typing.get_type_hints(type(node))[name], getattr(node, name)
    return fitted(given, hint, path)


def parsed(text: str) -> object:
    """What a piece of text says: a number, a list, a :class:`Named` part; the text itself if it is only words."""
    try:
        return _read(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text.strip()


def _read(node: ast.expr) -> object:
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float, str, types.NoneType)):
        return node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_read(node.value)}.{node.attr}"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _read(node.operand)
        if isinstance(value, (int, float)):
            return -value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        left, right = _read(node.left), _read(node.right)
        if isinstance(left, str) and isinstance(right, str):
            return f"{left}-{right}"  # a word with a hyphen
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_read(one) for one in node.elts]
    if isinstance(node, ast.Dict):
        keys = [_read(key) for key in node.keys if key is not None]
        return dict(zip(keys, map(_read, node.values), strict=True))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        fields = {word.arg: _read(word.value) for word in node.keywords if word.arg is not None}
        if len(fields) == len(node.keywords):
            return Named(node.func.id, fields, tuple(_read(one) for one in node.args))
    raise ValueError("not a value")


def fitted(given: object, hint: Any, at: str) -> object:
    """``given`` as a value of the type ``hint``.

    Raises:
        UsageError, NotFound: it is none; ``at`` says where.
    """
    raw = given
    given = parsed(given) if isinstance(given, str) else given
    options = _alternatives(hint)
    meant = _MEANT.get(given.lower(), given) if isinstance(given, str) else given
    if meant is None and types.NoneType in options:
        return None
    kinds = {kind.__name__: kind for one in options for kind in _kinds(one)}
    if kinds and isinstance(given, Mapping):
        given = _table(given, kinds)
    if kinds and (isinstance(given, Named) or given in kinds):
        return _made(given if isinstance(given, Named) else Named(str(given)), kinds, at)
    for option in options:
        found = _plain(raw, given, meant, option, at)
        if found is not None:
            return found
    what = f"{_shown(raw)} is not {_described(options, kinds)}"
    raise UsageError(what, where=at, remedy=_remedy(given, options, kinds))


def _plain(raw: object, given: object, meant: object, option: Any, at: str) -> object:
    """``given`` as a scalar, list or mapping of the type ``option``; ``None`` if it is none."""
    origin, inner = typing.get_origin(option), typing.get_args(option)
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if option is bool and isinstance(meant, bool):
        return meant
    if option is int and number and float(given).is_integer():  # type: ignore[arg-type]
        return int(given)  # type: ignore[call-overload]
    if option is float and number:
        return float(given)  # type: ignore[arg-type]
    if origin is Literal and raw in inner:
        return raw
    if option is str and isinstance(raw, str):
        return raw if given == raw.strip() or not isinstance(given, str) else given
    if option is str and number:
        return str(raw)
    if origin is tuple:
        return tuple(fitted(one, inner[0], at) for one in (given if isinstance(given, list) else [given]))
    if isinstance(given, Mapping) and isinstance(origin, type) and issubclass(origin, Mapping):
        return {fitted(key, inner[0], at): fitted(one, inner[1], f"{at}.{key}") for key, one in given.items()}
    return None


def told(value: object) -> object:
    """``value`` as JSON and TOML hold it, which :func:`fitted` turns back."""
    if isinstance(value, Part):
        return {"kind": type(value).__name__} | {
            f.name: told(getattr(value, f.name)) for f in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): told(item) for key, item in value.items()}
    return [told(item) for item in value] if isinstance(value, (tuple, list)) else value


def _table(given: Mapping[Any, object], kinds: Mapping[str, type[Part]]) -> Named:
    """A part given as a table: of the ``kind`` that it says, or of the only one that can stand here."""
    fields = {str(name): value for name, value in given.items()}
    kind, makers = str(fields.get("kind", "")), [maker.__name__ for maker in MAKERS]
    if len(kinds) == 1 and kind not in (*kinds, *makers):  # what it calls its kind is a field, as of a tokenizer
        return Named(next(iter(kinds)), fields)
    return Named(kind, {name: value for name, value in fields.items() if name != "kind"})


def _made(named: Named, kinds: Mapping[str, type[Part]], at: str) -> Part:
    """The part that is meant, with each of its fields fitted."""
    maker: Any = kinds.get(named.kind)
    if maker is None:
        maker = next((one for one in MAKERS if one.__name__ == named.kind and "Layout" in kinds), None)
    if maker is None:
        remedy = nearest(named.kind, kinds) or f"choose {' or '.join(kinds)}"
        what = f"no {named.kind!r} can stand here" if named.kind else "a table that does not say its kind"
        raise UsageError(what, where=at, remedy=remedy)
    hints = typing.get_type_hints(maker)
    if isinstance(maker, type):
        fields = dataclasses.fields(maker)
        names = [f.name for f in fields]
        need = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
    else:
        names = [name for name in hints if name != "return"]
        need = names[: len(names) - len(maker.__kwdefaults__ or {}) - len(maker.__defaults__ or ())]
    if len(named.plain) > len(names) or (named.plain and isinstance(maker, type)):
        raise UsageError(f"{named.kind} takes its fields by name", where=at, remedy=f"it has {', '.join(names)}")
    given = {**dict(zip(names, named.plain, strict=False)), **named.fields}
    for name in given:
        if name not in names:
            raise NotFound(f"{named.kind} has no field {name!r}", where=at, remedy=nearest(name, names))
    missing = [name for name in need if name not in given]
    if missing:
        raise UsageError(f"{named.kind} lacks {', '.join(missing)}", where=at, remedy="give them by name")
    made = {name: fitted(value, hints[name], f"{at}.{name}") for name, value in given.items() if name != "set"}
    if maker is At:
        made["set"] = _layer_settings(given["set"], f"{at}.set")
    return typing.cast(Part, maker(**made))


def _layer_settings(given: object, at: str) -> dict[str, object]:
    """What a rule for some layers sets: paths from the layer on, each with a value of its own type."""
    if not isinstance(given, Mapping):
        raise UsageError("is no table of paths and values", where=at, remedy="write {'attention.window': 512}")
    found = {}
    for path, value in given.items():
        hints: list[Any] = [Layer]
        for name in str(path).split("."):
            inside = (kind for hint in hints for one in _alternatives(hint) for kind in _kinds(one))
            fields = [typing.get_type_hints(kind) for kind in inside]
            hints = [field[name] for field in fields if name in field]
            if not hints:
                known = {known for field in fields for known in field}
                raise NotFound(f"a layer has no {path!r}", where=at, remedy=nearest(name, known))
        found[str(path)] = fitted(value, hints, f"{at}.{path}")
    return found


def _alternatives(hint: Any) -> list[Any]:
    inner = hint if isinstance(hint, list) else typing.get_args(hint)
    if isinstance(hint, list) or typing.get_origin(hint) in (Union, types.UnionType):
        return [option for one in inner for option in _alternatives(one)]
    return [hint]


def _kinds(hint: Any) -> Iterable[type[Part]]:
    """The kinds of part that a type allows, itself first."""
    if isinstance(hint, type) and issubclass(hint, Part):
        yield hint
        for below in hint.__subclasses__():
            yield from _kinds(below)


def _described(options: Sequence[Any], kinds: Mapping[str, type[Part]]) -> str:
    words = [*kinds]
    for one in options:
        origin, inner = typing.get_origin(one), typing.get_args(one)
        if one is types.NoneType:
            words.append("none")
        elif origin is Literal:
            words += [str(choice) for choice in inner]
        elif origin is tuple:
            words.append(f"a list of {_described(_alternatives(inner[0]), {})}")
        elif origin is not None:
            words.append("a table")
        elif not (isinstance(one, type) and issubclass(one, Part)):
            plain = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
            words.append(plain.get(one, str(one)))
    return " or ".join(dict.fromkeys(words))


def _remedy(given: object, options: Sequence[Any], kinds: Mapping[str, type[Part]]) -> str:
    choices = [c for one in options if typing.get_origin(one) is Literal for c in typing.get_args(one)]
    return nearest(given, [*map(str, choices), *kinds]) if isinstance(given, str) else ""


def _shown(given: object) -> str:
    return f"{given.kind}(…)" if isinstance(given, Named) else repr(given)
