"""A model as data: architecture, tokenizer, objective, recipe, and the changes that led to it from its ancestor."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from variorum.errors import NotFound, nearest
from variorum.spec.architecture import Architecture
from variorum.spec.part import Part, part, seen, table
from variorum.spec.paths import leaves, lookup, replaced
from variorum.spec.recipe import Objective, Recipe, Tokenizer

if TYPE_CHECKING:
    from variorum.spec.size import Size as Cost

Axis = Literal["objective", "training", "positions", "mechanism", "budget", "compression", "tokenizer"]
OBJECTIVE, TRAINING, POSITIONS, MECHANISM, BUDGET, COMPRESSION, TOKENIZER = Axis.__args__  # type: ignore[attr-defined]
Pressure = Literal[
    "length-extrapolation",
    "training-stability",
    "quadratic-attention",
    "kv-memory",
    "task-alignment",
    "data-efficiency",
    "under-training",
    "useless-objective",
    "signal-density",
    "parameter-bloat",
    "latency",
]
PRESSURES: tuple[str, ...] = Pressure.__args__  # type: ignore[attr-defined]
_NAME = "names and citations do not change what a model computes"


@dataclasses.dataclass(frozen=True)
class Change:
    """One difference from the ancestor: the value at ``path`` (and at ``also``, where the same change shows again)."""

    path: str
    value: object
    axis: Axis
    why: str
    relieves: Pressure | None = None
    also: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def items(self) -> Iterator[tuple[str, object]]:
        """Every (path, value) this change sets."""
        yield self.path, self.value
        yield from self.also.items()


@dataclasses.dataclass(frozen=True)
class Size:
    """A published size: what it sets, its repository and the parameter count its authors quote.

    ``uncertain`` says of each path that its authors leave open, or contradict, why it holds what it does.
    """

    set: Mapping[str, object]
    repo: str | None = None
    published: float | None = None
    note: str = ""
    uncertain: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of a diff: a path, both values, the axis, and the reason where a lineage gives one.

    ``by`` is the model that made the change; ``undone`` says that the diff goes back behind it. Rows of one change have
    the same ``change``: the path that it names first, or ``sizes`` for what the published sizes set.
    """

    path: str
    before: object
    after: object
    axis: Axis
    why: str = ""
    relieves: Pressure | None = None
    by: str = ""
    change: str = ""
    undone: bool = False


@part
class Model(Part):
    """Every path of a spec starts here."""

    name: str = seen(by="none", because=_NAME)
    cite: str = seen(by="none", because=_NAME)
    architecture: Architecture = seen(by="load")
    tokenizer: Tokenizer = seen(by="tokenizer")
    objective: Objective = seen(by="loss")
    recipe: Recipe = seen(by="training", default=Recipe())
    repo: str | None = seen(by="none", default=None, because=_NAME)
    published: float | None = seen(by="none", default=None, because=_NAME)
    weaknesses: tuple[Pressure, ...] = seen(by="none", default=(), because=_NAME)
    ancestor: Model | None = seen(by="none", default=None, because=_NAME)
    changes: tuple[Change, ...] = seen(by="none", default=(), because=_NAME)
    sizes: Mapping[str, Size] = table(by="none", default_factory=dict, because=_NAME)
    uncertain: Mapping[str, str] = table(by="none", default_factory=dict, because=_NAME)

    def variant(
        self,
        name: str,
        *,
        cite: str,
        changes: Sequence[Change],
        sizes: Mapping[str, Size] | None = None,
        weaknesses: tuple[Pressure, ...] = (),
        uncertain: Mapping[str, str] | None = None,
    ) -> Model:
        """A descendant: this model with ``changes`` applied in order.

        Raises:
            NotFound: a change names a path that does not exist.
        """
        child = dataclasses.replace(
            self,
            name=name,
            cite=cite,
            ancestor=self,
            changes=tuple(changes),
            sizes=dict(sizes or {}),
            weaknesses=weaknesses,
            uncertain=dict(uncertain or {}),
            repo=None,
            published=None,
        )
        for change in changes:
            child = child.set(dict(change.items()))
        return child

    def set(self, values: Mapping[str, object]) -> Model:
        """This model with each path of ``values`` replaced; lineage is kept."""
        model = self
        for path, value in values.items():
            model = replaced(model, path, value)
        return model

    def sized(self, name: str) -> Model:
        """This model at a published size.

        Raises:
            NotFound: no such size.
        """
        for key, size in self.sizes.items():
            if name in (key, key.removeprefix(f"{self.name}-")):
                sized = self.set(size.set)
                uncertain = {**self.uncertain, **size.uncertain}
                return dataclasses.replace(
                    sized, name=key, repo=size.repo, published=size.published, uncertain=uncertain
                )
        raise NotFound(f"{self.name} has no size {name!r}", remedy=nearest(name, self.sizes))

    def size(
        self, *, head: str | Sequence[str] | None = "published", context: int | None = None, batch: int = 1,
        dtype: str = "float16",
    ) -> Cost:  # fmt: skip
        """What it costs; see :func:`variorum.spec.size.size`."""
        from variorum.spec.size import size

        return size(self, head=head, context=context, batch=batch, dtype=dtype)

    @property
    def lineage(self) -> tuple[Model, ...]:
        """This model and its ancestors, oldest first."""
        return (*(self.ancestor.lineage if self.ancestor else ()), self)

    def diff(self, other: Model) -> list[Row]:
        """What changes from this model to ``other``, one row per place, with reasons where a lineage has them.

        Rows are ordered by axis, those of one change together. A model that ``other`` descends from, or that descends
        from it, gives its reasons; what both have in common gives none.
        """
        return sorted(_rows(self, other), key=lambda row: (AXES.index(row.axis), row.change, row.path))


COMPARED = ("architecture", "tokenizer", "objective", "recipe")
AXES: tuple[Axis, ...] = (OBJECTIVE, TOKENIZER, POSITIONS, MECHANISM, COMPRESSION, BUDGET, TRAINING)


@dataclasses.dataclass(frozen=True)
class _Reason:
    change: Change
    by: str
    undone: bool


def _rows(a: Model, b: Model) -> Iterator[Row]:
    reasons = _reasons(a, b)
    sizes = {path for model in (a, b) for size in model.sizes.values() for path in size.set}
    before = {k: v for field in COMPARED for k, v in leaves(getattr(a, field), field)}
    after = {k: v for field in COMPARED for k, v in leaves(getattr(b, field), field)}
    whole: list[str] = []
    for path in sorted(before.keys() | after.keys()):
        if any(path.startswith(f"{root}.") for root in whole):
            continue
        old, new = before.get(path), after.get(path)
        if old == new and path in before and path in after:
            continue
        if isinstance(old, type) or isinstance(new, type):
            whole.append(path)
        found = _reason(path, reasons)
        if found is None:
            sized = path in sizes
            axis = BUDGET if sized else axis_of(path)
            why, group = ("published size", "sizes") if sized else ("", path)
            yield Row(path, _at(a, path), _at(b, path), axis, why, change=group)
        else:
            change = found.change
            yield Row(
                path, _at(a, path), _at(b, path), change.axis, change.why, change.relieves, found.by, change.path,
                found.undone,
            )  # fmt: skip


def _reasons(a: Model, b: Model) -> dict[str, _Reason]:
    """Every path that a change between the two sets; those on the way to ``b`` win over those on the way back."""
    found: dict[str, _Reason] = {}
    for start, end, undone in ((b, a, True), (a, b, False)):
        common = {id(model.changes) for model in start.lineage if model.changes}
        for model in end.lineage:
            if id(model.changes) not in common:
                for change in model.changes:
                    found.update({path: _Reason(change, model.name, undone) for path, _ in change.items()})
    return found


def _reason(path: str, reasons: Mapping[str, _Reason]) -> _Reason | None:
    """The reason given for ``path``, or for the nearest place above it, or below it."""
    above = [at for at in reasons if path == at or path.startswith(f"{at}.")]
    below = [at for at in reasons if at.startswith(f"{path}.")]
    return reasons[max(above, key=len)] if above else reasons[min(below, key=len)] if below else None


def axis_of(path: str) -> Axis:
    """The axis of a place that no lineage explains."""
    first = {"tokenizer": TOKENIZER, "objective": OBJECTIVE, "recipe": TRAINING}.get(path.partition(".")[0])
    if first is not None:
        return first
    if "positions" in path.split("."):
        return POSITIONS
    return TRAINING if path.endswith(("dropout", "eps")) else MECHANISM


def _at(model: Model, path: str) -> object:
    try:
        return lookup(model, path)
    except NotFound:
        return None
