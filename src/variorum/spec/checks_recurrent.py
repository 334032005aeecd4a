"""The tests behind the rules of recurrent stacks; see :mod:`variorum.spec.checks`."""

from __future__ import annotations

from collections.abc import Iterator

from variorum.spec.heads import TwoWayHead, VocabularyHead
from variorum.spec.model import Model

Found = Iterator[tuple[str, str]]


def recurrent(model: Model) -> Found:
    """A recurrent stack beside others, of an odd width, or with an input that others read."""
    arch = model.architecture
    if arch.recurrent is None:
        return
    for name in arch.stacks:
        yield f"architecture.{name}", "attention beside a recurrent stack"
    if arch.width % 2:
        yield "architecture.width", f"no two halves of {arch.width}"
    source = arch.recurrent.input
    if source.query_vector or source.segments or source.clusters is not None or source.tie is not None:
        yield "architecture.recurrent.input", "an input made for other stacks"


def two_ways(model: Model) -> Found:
    """Heads that predict from two sides on states that have seen both, or the other way about; ties to no table."""
    arch = model.architecture
    for name, head in arch.heads.items():
        at = f"architecture.heads.{name}"
        if isinstance(head, TwoWayHead):
            if arch.recurrent is None:
                yield at, "a head of two halves on states that are whole"
            elif head.tie not in (None, "recurrent.input.table") or (head.tie and arch.recurrent.input.rank):
                yield f"{at}.tie", f"{head.tie} is no table as wide as a half"
        elif isinstance(head, VocabularyHead) and arch.recurrent is not None:
            yield at, "one head over the words on states that have seen them"


def two_directions(model: Model) -> Found:
    """Models whose states do not keep the two sides apart."""
    if model.architecture.recurrent is None:
        yield "architecture.recurrent", f"{model.name} has no stack that reads from one side alone"
