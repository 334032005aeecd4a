"""A fine-tuning that is stopped anywhere goes on from its last whole epoch, and ends in the same bits.

A snapshot after each epoch holds the trainer's state, the best weights so far, and what every epoch came to; see
:mod:`variorum.training.snapshots`. It belongs to one fine-tuning: other rows or settings are refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variorum.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from variorum.tasks.examples import Example
    from variorum.training.loop import Trainer

BEST = "best/"


@dataclass(frozen=True)
class Place:
    """Where a fine-tuning stood after an epoch: the best weights by name, and facts that JSON holds."""

    best: Mapping[str, Tensor]
    facts: Mapping[str, Any]


class Bookmark:
    """The snapshots of one fine-tuning.

    Args:
        folder: where they are.
        what: names the fine-tuning; see :func:`fingerprint`.
    """

    def __init__(self, folder: Path, what: str, say: Callable[[str], None] | None = None) -> None:
        from variorum.training.snapshots import Snapshots

        self.what, self.snapshots = what, Snapshots(folder, say=say or (lambda line: None))

    def open(self, trainer: Trainer) -> Place | None:
        """Stand where the last epoch ended; ``None`` where none did.

        Raises:
            UsageError: the folder holds another fine-tuning.
        """
        found = self.snapshots.newest(trainer.state())
        if found is None:
            return None
        if found.facts["what"] != self.what:
            raise UsageError(
                "holds a fine-tuning of other rows or settings", where=str(self.snapshots.folder),
                remedy="give another folder, or remove this one",
            )  # fmt: skip
        tensors = dict(found.state.tensors)
        best = {name.removeprefix(BEST): tensors.pop(name).clone() for name in list(tensors) if name.startswith(BEST)}
        trainer.restore(dataclasses.replace(found.state, tensors=tensors))
        return Place(best, found.facts)

    def put(self, trainer: Trainer, place: Place) -> None:
        """Write down where it stands.

        Raises:
            OverBudget: the disk is full. AccessError: it may not be written.
        """
        state = trainer.state()
        tensors = {**state.tensors, **{BEST + name: value for name, value in place.best.items()}}
        self.snapshots.save(dataclasses.replace(state, tensors=tensors), {**place.facts, "what": self.what})


def fingerprint(how: object, examples: Sequence[Example]) -> str:
    """SHA-256 of settings and rows."""
    digest = hashlib.sha256(repr(how).encode())
    for one in examples:
        digest.update(repr((sorted((name, list(ids)) for name, ids in one.inputs.items()), one.target)).encode())
        digest.update(repr(one.weight).encode())
    return digest.hexdigest()
