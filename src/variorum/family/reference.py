"""A model by its name, or by a spec file: a few changes to a known model, each with its reason, in TOML.

::

    base = "roberta-base"                # a model, a published size, or another spec file beside this one
    name = "roberta-rope"

    [[change]]
    path = "encoder.positions"           # from the model on; "architecture." may be left out
    value = {kind = "Rotary", theta = 10000}
    why = "rotation needs no table"      # optional, as are axis and relieves
    also = {"encoder.input.positions" = "none"}

Whatever comes out is held against the rules before anyone gets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from variorum.errors import DamagedFile, NotFound, UsageError, nearest
from variorum.family import find
from variorum.spec.model import AXES, PRESSURES, Axis, Change, Model, Pressure, Row, axis_of

if TYPE_CHECKING:
    from variorum.spec.size import Size

ENDING = ".toml"
TOP, INNER = ("base", "name", "cite", "change"), ("path", "value", "why", "axis", "relieves", "also")


def architecture(reference: str | Path | Model, *, set: Sequence[str] = ()) -> Model:
    """The spec that a reference means.

    Args:
        reference: a model's name, a published size, or a spec file (``.toml``); a spec is its own reference.
        set: further changes, each ``path=value`` as on the command line.

    Raises:
        NotFound: no such model, file or path; the nearest name is given.
        UsageError: a value that its field cannot hold, or a model that the rules exclude, with their reason.
        DamagedFile: the file is no TOML.
    """
    if isinstance(reference, Model):
        model = reference
    else:
        model = read(reference) if is_file(reference) else find(str(reference))
    return changed(model, set) if set else model


def diff(a: str | Path | Model, b: str | Path | Model) -> list[Row]:
    """What changes from ``a`` to ``b``; see :meth:`variorum.spec.model.Model.diff`."""
    return architecture(a).diff(architecture(b))


def size(model: str | Path | Model, **options: Any) -> Size:
    """What a model costs; see :func:`variorum.spec.size.size` for the options."""
    from variorum.spec.size import size as cost

    return cost(architecture(model), **options)


def is_file(reference: str | Path) -> bool:
    """Whether a reference is a spec file."""
    return str(reference).lower().endswith(ENDING)


def changed(model: Model, settings: Sequence[str]) -> Model:
    """``model`` with each ``path=value`` of ``settings`` set, in order; raises what :func:`architecture` does."""
    changes = []
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals:
            raise UsageError(f"{setting!r} sets nothing", where="--set", remedy="write path=value")
        changes.append({"path": path.strip(), "value": text.strip()})
    cite = f"{model.name} with {', '.join(settings)}"
    return _derived(model, f"{model.name}, changed", cite, changes, where="--set")


def read(path: str | Path, above: tuple[Path, ...] = ()) -> Model:
    """The model that a spec file describes; raises what :func:`architecture` does."""
    path = Path(path).expanduser()
    at = str(path)
    if path.resolve() in above:
        raise UsageError("is its own ancestor", where=at, remedy="let one of these files start from a known model")
    told = _toml(path)
    _known(told, TOP, at)
    base = told.get("base")
    if not isinstance(base, str):
        raise UsageError("does not say what it starts from", where=at, remedy='give base = "a model" in the first line')
    if is_file(base):
        ancestor = read(path.parent / base, (*above, path.resolve()))
    else:
        ancestor = find(base)
    changes = told.get("change", [])
    if not isinstance(changes, list) or not all(isinstance(one, dict) for one in changes):
        raise UsageError("change is not a list of tables", where=at, remedy="head each with [[change]]")
    name = str(told.get("name", path.stem))
    return _derived(ancestor, name, str(told.get("cite", f"{path.name}, from {ancestor.name}")), changes, where=at)


def _toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise NotFound("no such spec file", where=str(path), remedy="check the path") from None
    except IsADirectoryError:
        raise NotFound("is a directory, and no spec file", where=str(path), remedy="check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFile(f"is no TOML ({error})", where=str(path), remedy="mend that place") from None


def _derived(
    base: Model, name: str, cite: str, changes: Iterable[Mapping[str, Any]], *, where: str
) -> Model:  # fmt: skip
    from variorum.spec.rules import check

    made, done = base, []
    for told in changes:
        change = _change(made, told, where)
        done.append(change)
        made = made.set(dict(change.items()))
    for problem in check(made):
        raise problem.error()
    return base.variant(name, cite=cite, changes=done)


def _change(model: Model, told: Mapping[str, Any], where: str) -> Change:
    from variorum.spec.values import value_at, whole_path

    _known(told, INNER, f"{where}, change")
    if not isinstance(told.get("path"), str) or "value" not in told:
        raise UsageError("a change needs a path and a value", where=where, remedy='"none" is the value of nothing')
    also = told.get("also", {})
    if not isinstance(also, Mapping):
        raise UsageError("also is not a table of paths and values", where=where, remedy='write {"path" = "value"}')
    places = list(_places({told["path"]: told["value"], **also}))
    paths = [whole_path(model, path) for path, _ in places]
    values: list[object] = []
    for path, (_, given) in zip(paths, places, strict=True):
        # One place after the other: a second may lie inside what the first has put there.
        values.append(value_at(model, path, given))
        model = model.set({path: values[-1]})
    axis, relieves = told.get("axis", axis_of(paths[0])), told.get("relieves")
    _among(axis, AXES, "axis", where)
    if relieves is not None:
        _among(relieves, PRESSURES, "relieves", where)
    set = dict(zip(paths, values, strict=True))
    first = paths[0]
    return Change(
        first, set.pop(first), cast(Axis, axis), str(told.get("why", "")), cast("Pressure | None", relieves), set
    )  # fmt: skip


def _places(given: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for path, value in given.items():
        yield str(path), value


def _known(told: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    for name in told:
        if name not in names:
            remedy = nearest(name, names) or f"it may have {', '.join(names)}"
            raise UsageError(f"unknown key {name!r}", where=where, remedy=remedy)


def _among(word: object, known: Sequence[str], what: str, where: str) -> None:
    if word not in known:
        remedy = nearest(str(word), known) or f"one of {', '.join(known)}"
        raise UsageError(f"unknown {what} {word!r}", where=where, remedy=remedy)
