"""What a model changed since another, one step a change: the line that a field guide gives each member of a family."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

from variorum.errors import NotFound
from variorum.family import find, models
from variorum.spec.model import Change, Model
from variorum.spec.paths import lookup

Kind = Literal["encoders", "decoders", "seq2seq"]
Decided = Literal["config", "learned", "state"]
#: Longer than any window, so that one shows.
LONG = 1 << 16
#: What the members of each kind are told against.
BASES: dict[Kind, str] = {"encoders": "bert", "decoders": "gpt-1", "seq2seq": "transformer"}


@dataclasses.dataclass(frozen=True)
class Step:
    """One change on the way from a base to a model.

    ``decided`` says what it reaches: what the run trains (learned), what lives during a run (state), or the choices
    made before it alone (config). ``by`` is the model that made it.
    """

    change: Change
    by: str
    before: object
    after: object
    decided: Decided


def members(kind: Kind) -> list[Model]:
    """The models of a kind, its base first."""
    base = find(BASES[kind])
    return [base, *(model for model in models().values() if kind_of(model) == kind and model.name != base.name)]


def kind_of(model: Model) -> Kind | None:
    """Which stacks a model has; ``None`` where nothing attends."""
    if not model.architecture.stacks:
        return None
    if model.architecture.decoder is None:
        return "encoders"
    return "decoders" if model.architecture.encoder is None else "seq2seq"


def steps(model: Model, base: Model) -> list[Step]:
    """The changes between the last ancestor that ``model`` has in common with ``base`` and ``model``, oldest first.

    A later change at the same path takes the place of the earlier one, and one that leads back to the base is none.
    """
    common = {ancestor.name for ancestor in base.lineage}
    last = [ancestor for ancestor in model.lineage if ancestor.name in common]
    start = last[-1] if last else model.lineage[0]
    found: dict[str, Step] = {}
    for ancestor in model.lineage[[one.name for one in model.lineage].index(start.name) + 1 :]:
        for change, decided in zip(ancestor.changes, _decided(ancestor), strict=True):
            found.pop(change.path, None)
            before = _at(start, change.path)
            found[change.path] = Step(change, ancestor.name, before, _at(model, change.path), decided)
    return [step for step in found.values() if step.before != step.after or step.change.also]


def _at(model: Model, path: str) -> object:
    try:
        return lookup(model, path)
    except NotFound:
        return None


def _decided(model: Model) -> list[Decided]:
    """What each change of ``model`` reaches. Those that only together make a legal model are judged together."""
    key = id(model.changes)
    if key not in _JUDGED:
        _JUDGED[key] = model.changes, list(_judged(model))  # kept beside, so that no other changes get this id
    return _JUDGED[key][1]


_JUDGED: dict[int, tuple[object, list[Decided]]] = {}


def _judged(model: Model) -> Iterator[Decided]:
    from variorum.spec.rules import check

    assert model.ancestor is not None
    legal = made = model.ancestor
    waiting = 0
    for change in model.changes:
        made = made.set(dict(change.items()))
        waiting += 1
        if change is model.changes[-1] or not check(made):
            yield from [_reach(legal, made)] * waiting
            legal, waiting = made, 0


def _reach(before: Model, after: Model) -> Decided:
    from variorum.spec.inventory import tensors
    from variorum.spec.state import alive

    one, two = before.architecture, after.architecture
    if one == two:
        return "config"
    if tensors(one, tuple(one.heads)) != tensors(two, tuple(two.heads)):
        return "learned"
    held = [[(h.name, h.formula) for h in alive(a, batch=1, context=LONG, dtype="float16")] for a in (one, two)]
    return "config" if held[0] == held[1] else "state"
