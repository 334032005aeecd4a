"""Fields that nothing reads where they stand, because another field says so. Everywhere else their observer must fail.

An entry here is checked both ways: a dormant field that somebody sees after all is as wrong as a live one that nobody
does. A field that no tiny model wakes does not belong here but among the *none* of its declaration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from variorum.errors import NotFound
from variorum.spec.heads import SequenceHead
from variorum.spec.inputs import TokenInput
from variorum.spec.inventory import wants_pooler
from variorum.spec.model import Model
from variorum.spec.part import Part
from variorum.spec.paths import lookup
from variorum.spec.positions import Disentangled, Learned


class Place(NamedTuple):
    """Where a field stands: the whole spec, the heads in use, the path of the part that holds it."""

    spec: Model
    heads: tuple[str, ...]
    above: str

    def get(self, path: str) -> object:
        """The value at ``path`` below this part."""
        return lookup(self.spec, f"{self.above}.{path}")

    @property
    def decodes(self) -> bool:
        """Whether this input is the decoder's beside an encoder."""
        return self.above.startswith("architecture.decoder") and self.spec.architecture.encoder is not None


def _windowed(place: Place) -> bool:
    window, memory = place.get("block.attention.window"), place.get("memory")
    return isinstance(window, int) and isinstance(memory, int) and window <= memory + 1


def _no_cross(place: Place) -> bool:
    return lookup(self_stack(place), "block.cross") is None


def self_stack(place: Place) -> Part:
    """The stack in which the part stands."""
    found = lookup(place.spec, ".".join(place.above.split(".")[:2]))
    assert isinstance(found, Part)
    return found


def _count_of(place: Place) -> str:
    positions = place.get("positions")
    return positions.count if isinstance(positions, Learned) else "mask"


def _disentangled(place: Place) -> Disentangled:
    found = lookup(place.spec, place.above)
    assert isinstance(found, Disentangled)
    return found


def _pooled(place: Place) -> bool:
    return not place.heads or wants_pooler(place.spec.architecture, place.heads)


def _judges(at: Place) -> SequenceHead:
    found = lookup(at.spec, at.above)
    assert isinstance(found, SequenceHead)
    return found


def _no_table(place: Place) -> bool:
    return not any(isinstance(stack.input, TokenInput) for stack in place.spec.architecture.stacks.values())


DORMANT: dict[tuple[str, str], tuple[Callable[[Place], bool], str]] = {
    ("Init", "table"): (_no_table, "no ids are read"),
    ("Layout", "cross"): (_no_cross, "there is no cross-attention"),
    ("TokenInput", "pad_id"): (
        lambda at: not (at.decodes and at.heads == ("seq2seq_lm",)) and _count_of(at) == "mask",
        "padding is what the mask says",
    ),
    ("SequenceHead", "end_id"): (lambda at: _judges(at).take != "end", "the head reads another state"),
    ("TokenInput", "pad_learns"): (
        lambda at: not at.decodes or at.get("start_id") != at.get("pad_id"),
        "no text holds the padding id",
    ),
    ("TokenInput", "start_id"): (
        lambda at: not at.decodes or at.heads == (),
        "only a decoder beside an encoder begins with it",
    ),
    ("Stack", "memory"): (_windowed, "no window reaches so far back"),
    ("Attention", "window"): (lambda at: at.above.endswith(".cross"), "cross-attention sees the whole source"),
    ("Disentangled", "max_distance"): (lambda at: _disentangled(at).buckets is None, "there are no buckets"),
    ("Disentangled", "key_bias"): (
        lambda at: _disentangled(at).projections == "shared" or "c2p" not in _disentangled(at).terms,
        "there is no key projection of its own",
    ),
    ("Architecture", "pooler"): (lambda at: not _pooled(at), "no head in use reads it"),
    ("Pooler", "activation"): (lambda at: not _pooled(at) or not at.heads, "no score in use reads it"),
}


def reason(spec: Model, heads: tuple[str, ...], owner: type[Part], field: str, path: str) -> str | None:
    """Why nothing reads the field at ``path``, or ``None`` where something does."""
    entry = DORMANT.get((owner.__name__, field))
    if entry is None:
        return None
    asleep, why = entry
    try:
        return why if asleep(Place(spec, heads, path.rpartition(".")[0])) else None
    except NotFound:  # a rule for some layers sets it
        return None


__all__ = ["DORMANT", "reason"]
