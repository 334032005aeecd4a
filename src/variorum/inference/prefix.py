"""Beginnings of texts that were read before, for texts that begin alike: a system prompt is read once, not once a call.

They are kept in pieces of so many tokens, each a child of the piece before it. A prompt is read piece by piece whether
it is known or not, so what is restored is bit for bit what reading it would have given.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Sequence

from variorum.attention.cache import Cache, CachePlan
from variorum.attention.cache.numbers import Entries
from variorum.errors import UsageError
from variorum.model import Model
from variorum.spec.cache import arrangement

Key = tuple[object, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class _Piece:
    """What each layer holds of some tokens, and the number that their children name them by."""

    number: int
    entries: list[Entries]

    @property
    def bytes(self) -> int:
        return sum(one.numel() * one.element_size() for layer in self.entries for one in layer)


class PrefixCache:
    """Keys and values of the beginnings of texts, kept from call to call within a number of bytes.

    Args:
        model: the one that reads; when its weights change, everything is forgotten.
        limit: bytes that are kept at most; what was used longest ago goes first.
        piece: tokens of a piece. Only whole pieces are known again.

    ``reused`` counts the tokens that were found here.

    Raises:
        UsageError: a piece of no tokens.
    """

    def __init__(self, model: Model, limit: int, piece: int = 64) -> None:
        if piece < 1:
            raise UsageError(f"a piece of {piece} tokens holds none", remedy="give at least one")
        self.model, self.limit, self.piece = model, limit, piece
        self.bytes = self.reused = 0
        self._pieces: OrderedDict[Key, _Piece] = (
            OrderedDict()
        )  # the one used longest ago first, children before parents
        self._weights = _state(model)
        self._made = 0

    def require(self, model: Model, plan: CachePlan | None) -> None:
        """Refuse what cannot begin with another text's keys.

        Raises:
            UsageError: no cache; another model; one that reads a source, remembers states, or turns keys by a text's
                length; or rings that hold less than a piece.
        """
        if plan is None:
            raise UsageError("nothing is kept, so nothing can be used again", remedy="give a cache plan")
        stack, name = model.spec.architecture.main, model.spec.name
        if model is not self.model:
            raise UsageError(f"these beginnings were read by another model than {name}", remedy="make one for it")
        if model.spec.architecture.encoder is not None:
            raise UsageError(f"what {name} writes depends on its source, not on what it began with", remedy="use none")
        if stack.memory or stack.settled is not None:
            reason = "remembers states, not keys" if stack.memory else "turns its keys by the length of the text"
            raise UsageError(f"{name} {reason}: they cannot be used again", remedy="use none")
        rings = [ring for i in range(stack.depth) if (ring := arrangement(stack, i, plan).ring) is not None]
        if min(rings, default=self.piece) < self.piece:
            raise UsageError(
                f"rings of {min(rings)} tokens do not hold a piece of {self.piece}", remedy=f"use piece={min(rings)}"
            )
        if self._weights != _state(model):
            self.clear()
            self._weights = _state(model)

    def known(self, ids: Sequence[int], plan: CachePlan) -> int:
        """How many of the first tokens of ``ids`` are here; never the last, whose scores are wanted."""
        return len(self._path(ids, plan)) * self.piece

    def restore(self, cache: Cache, row: int, ids: Sequence[int], plan: CachePlan) -> int:
        """Let an empty row of ``cache`` begin with what is known of ``ids``; how many tokens that is."""
        path = self._path(ids, plan)
        for key in path:
            cache.lay(row, self._pieces[key].entries)
        self._touch(path)
        self.reused += len(path) * self.piece
        return len(path) * self.piece

    def keep(self, cache: Cache, row: int, ids: Sequence[int], plan: CachePlan) -> None:
        """Keep the last piece of ``ids``, which a row of ``cache`` has just read; the pieces before it are here."""
        path = self._path([*ids, -1], plan)
        if len(path) != len(ids) // self.piece - 1:
            return  # it is here, or those before it had no room
        piece = _Piece(self._made, cache.lift(row, len(ids) - self.piece, len(ids)))
        if piece.bytes > self.limit:
            return
        self._made += 1
        path.append(self._key(path, ids[len(ids) - self.piece :], plan))
        self._pieces[path[-1]] = piece
        self.bytes += piece.bytes
        self._touch(path)
        while self.bytes > self.limit:
            self.bytes -= self._pieces.popitem(last=False)[1].bytes

    def clear(self) -> None:
        """Forget everything."""
        self._pieces.clear()
        self.bytes = 0

    def _path(self, ids: Sequence[int], plan: CachePlan) -> list[Key]:
        path: list[Key] = []
        for start in range(0, len(ids) - self.piece, self.piece):
            key = self._key(path, ids[start : start + self.piece], plan)
            if key not in self._pieces:
                break
            path.append(key)
        return path

    def _key(self, path: Sequence[Key], ids: Sequence[int], plan: CachePlan) -> Key:
        return self._pieces[path[-1]].number if path else plan.numbers, tuple(ids)

    def _touch(self, path: Sequence[Key]) -> None:
        """Mark as used, children first, so that the oldest of all has no children."""
        for key in reversed(path):
            self._pieces.move_to_end(key)


def _state(model: Model) -> tuple[tuple[int, int], ...]:
    """What changes whenever a weight does."""
    return tuple((parameter.data_ptr(), parameter._version) for parameter in model.parameters())
