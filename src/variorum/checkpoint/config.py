"""config.json in and out, through a family's dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from variorum.errors import DamagedFile, NotFound, VariorumError, nearest
from variorum.family.names import dialects, readable
from variorum.spec.dialect import Dialect, Key
from variorum.spec.heads import Problem, SequenceHead, TokenHead
from variorum.spec.model import Model
from variorum.spec.paths import lookup

MAX_DEPTH = 1_000  # DeepNet's, the deepest published; beyond any use a model would take for ever to lay out
POSITIVE = {"width", "depth", "vocab", "heads", "kv_heads", "head_dim"}  # sizes of which none makes no model
LABELLED = ("sequence_classification", "token_classification", "image_classification")

# What releases before 2020 wrote beside any num_labels, whatever it was.
UNNAMED = {"0": "LABEL_0", "1": "LABEL_1"}
CLASSIFIERS = ("sequence_classification", "image_classification")
PROBLEMS: dict[str, Problem] = {
    "single_label_classification": "single_label",
    "multi_label_classification": "multi_label",
    "regression": "regression",
}


def dialect_of(config: Mapping[str, Any], where: str = "config.json") -> Dialect:
    """The dialect of a config's ``model_type``.

    Raises:
        NotFound: a type that is not known.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in readable():
        raise NotFound(
            f"model_type {kind!r} is not known", where=where,
            remedy=nearest(str(kind), dialects()) or f"known: {', '.join(dialects())}",
        )  # fmt: skip
    dialect = readable()[kind]
    return dialect.choose(config) if dialect.choose else dialect


def read_config(config: Mapping[str, Any], where: str = "config.json") -> tuple[Model, Dialect]:
    """The spec a published config describes.

    Raises:
        NotFound: an unknown ``model_type``.
        DamagedFile: a value that makes no sense, or that this engine does not implement.
    """
    dialect = dialect_of(config, where)
    inner = config.get(dialect.part) if dialect.part else None
    if isinstance(inner, Mapping):
        config = {**config, **inner}
    for name, must in dialect.required.items():
        if name in config and (config[name] or None) != (must or None):
            raise DamagedFile(f"{name} is {config[name]!r}, only {must!r} is implemented", where=where)
    try:
        values: dict[str, object] = {}
        for key in dialect.keys:
            values |= _read(key, config, dialect.base)
        model = dialect.base.set(values)
        model = model.set(dialect.read(config, model))
        return model.set(_labels(config, model)), dialect
    except VariorumError as error:
        raise type(error)(error.what, where=error.where or where, remedy=error.remedy) from error
    except (TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError, OverflowError) as error:
        raise DamagedFile(f"a value makes no sense ({error})", where=where) from error


def _read(key: Key, config: Mapping[str, Any], base: Model) -> dict[str, object]:
    if key.config not in config or (config[key.config] is None and key.none == "base"):
        return {}
    value = key.codec.read(config[key.config])
    known = lookup(base, key.paths[0])
    number = isinstance(known, int | float) and not isinstance(known, bool)
    if number and value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise DamagedFile(f"{key.config} is {config[key.config]!r}, which is not a number")
    if isinstance(known, int) and number and value is not None:
        field = key.paths[0].rpartition(".")[2]
        least, most = 1 if field in POSITIVE else 0, MAX_DEPTH if field == "depth" else 2**40
        if not isinstance(value, int) or not least <= value <= most:
            raise DamagedFile(f"{key.config} is {config[key.config]!r}, which is not a usable size")
    return dict.fromkeys(key.paths, value)


def _labels(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    names, heads = config.get("id2label"), model.architecture.heads
    if names == UNNAMED and isinstance(config.get("num_labels"), int):
        names = None
    count = len(names) if isinstance(names, Mapping) else config.get("num_labels")
    found: dict[str, object] = {}
    if isinstance(count, int):
        found = {f"architecture.heads.{name}.labels": count for name in LABELLED if name in heads}
    for name in CLASSIFIERS:
        if name in heads:
            labels = count if isinstance(count, int) else getattr(heads[name], "labels", 2)
            found[f"architecture.heads.{name}.problem"] = _problem(config, labels)
    return found


def label_names(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the classes, in the order of their ids; empty where the config gives none, or not one for each."""
    names = config.get("id2label")
    if not isinstance(names, Mapping) or set(names) != {str(i) for i in range(len(names))}:
        return ()
    return tuple(str(names[str(i)]) for i in range(len(names)))


def _problem(config: Mapping[str, Any], labels: int) -> Problem:
    """What ``problem_type`` says of a sequence head; without it one label is a number.

    Raises:
        DamagedFile: it names no problem.
    """
    said = config.get("problem_type")
    if said is None:
        return "regression" if labels == 1 else "single_label"
    if said not in PROBLEMS:
        raise DamagedFile(f"problem_type is {said!r}", remedy=f"known: {', '.join(PROBLEMS)}")
    return PROBLEMS[said]


def write_config(
    model: Model, dialect: Dialect, origin: Mapping[str, Any], heads: tuple[str, ...], labels: Sequence[str] = ()
) -> dict[str, Any]:
    """The config that ``read_config`` turns back into ``model``; an origin that still holds stays as it is.

    ``labels`` are the names of its classes.
    """
    config: dict[str, Any] = dict(origin)
    unchanged = bool(origin) and read_config(origin)[0] == model
    if not unchanged:
        config = {"model_type": dialect.model_type, **dialect.required, **origin, **_written(model, dialect, origin)}
    if heads_of(origin, dialect) != heads or not config.get("architectures"):
        config["architectures"] = [class_name(dialect, heads)]
    for name in heads:
        head = model.architecture.heads[name]
        if name in LABELLED and isinstance(head, SequenceHead | TokenHead):
            named = config.get("id2label") or {}
            if len(labels) == head.labels and label_names(config) != tuple(labels):
                config |= _named(labels)
            elif len(named) != head.labels:
                config |= _named([f"LABEL_{i}" for i in range(head.labels)])
        if name in CLASSIFIERS and isinstance(head, SequenceHead) and _problem(config, head.labels) != head.problem:
            config["problem_type"] = next(said for said, problem in PROBLEMS.items() if problem == head.problem)
    return config


def _named(labels: Sequence[str]) -> dict[str, Any]:
    return {
        "id2label": {str(i): name for i, name in enumerate(labels)},
        "label2id": {name: i for i, name in enumerate(labels)},
    }


def _written(model: Model, dialect: Dialect, origin: Mapping[str, Any]) -> dict[str, Any]:
    """Every key, in the origin's spelling where that still says the same."""
    found: dict[str, Any] = {}
    for key in dialect.keys:
        try:
            value = lookup(model, key.paths[0])
        except NotFound:
            continue
        kept = key.config in origin and (origin[key.config] is None or key.codec.read(origin[key.config]) == value)
        if not kept:
            found[key.config] = key.codec.write(value)
    return found | dict(dialect.write(model))


def class_name(dialect: Dialect, heads: tuple[str, ...]) -> str:
    """The published class that carries exactly these heads, or the one that carries none."""
    bare = next((name for name, has in dialect.classes.items() if not has), next(iter(dialect.classes)))
    return next((name for name, has in dialect.classes.items() if set(has) == set(heads)), bare)


def heads_of(config: Mapping[str, Any], dialect: Dialect) -> tuple[str, ...]:
    """The heads a directory says it holds; none when it does not say."""
    named = config.get("architectures")
    first = named[0] if isinstance(named, list) and named else None
    return dialect.classes.get(first, ()) if isinstance(first, str) else ()
