"""The tests behind the rules of heads; see :mod:`variorum.spec.checks`."""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import get_args

from variorum.spec.attention import Attention
from variorum.spec.checks import Found
from variorum.spec.heads import EmbeddingHead, EnhancedMaskDecoder, Head, SequenceHead, TokenHead, VocabularyHead
from variorum.spec.inputs import TokenInput
from variorum.spec.model import Model


def poolers(model: Model) -> Found:
    """Heads that read a pooler that is not there."""
    for name, head in model.architecture.heads.items():
        if isinstance(head, SequenceHead) and head.take == "pooler" and model.architecture.pooler is None:
            yield f"architecture.heads.{name}.take", "no pooler"


def words(model: Model) -> Found:
    """Heads over a vocabulary that no token of the main stack comes from."""
    arch = model.architecture
    for name, head in arch.heads.items():
        if isinstance(head, VocabularyHead) and arch.stacks and not arch.vocab:
            yield f"architecture.heads.{name}", f"scores over words from {arch.main.input.reads}"


def choices(model: Model) -> Found:
    """Choices among what is no text."""
    arch = model.architecture
    if "multiple_choice" in arch.heads and arch.stacks:
        source = next(iter(arch.stacks.values())).input
        if not isinstance(source, TokenInput):
            yield "architecture.heads.multiple_choice", f"choices among {source.reads}"


def ends(model: Model) -> Found:
    """Heads that read the state at an end token that they do not name, or that the text cannot hold."""
    arch = model.architecture
    vocab = getattr(arch.source, "vocab", 0) if arch.stacks or arch.recurrent else 0
    for name, head in model.architecture.heads.items():
        if isinstance(head, SequenceHead) and head.take == "end" and (head.end_id is None or head.end_id >= vocab):
            yield f"architecture.heads.{name}.end_id", f"end id {head.end_id} in a vocabulary of {vocab:,}"


def heads(kind: type[Head] | UnionType, *names: str) -> Callable[[Model], Found]:
    """A test for models that have none of the heads ``names``, or have it of another kind."""

    def broken(model: Model) -> Found:
        held = {name: model.architecture.heads[name] for name in names if name in model.architecture.heads}
        if not held:
            has = ", ".join(model.architecture.heads) or "none"
            yield "architecture.heads", f"{model.name} has no {' or '.join(names)} head (it has {has})"
        for name, head in held.items():
            if not isinstance(head, kind):
                wanted = " or ".join(one.__name__ for one in get_args(kind) or (kind,))
                yield f"architecture.heads.{name}", f"a {type(head).__name__} in the place of a {wanted}"

    return broken


def one_question(model: Model) -> Found:
    """Pair and choice heads whose labels do not exclude one another, and choices that get more than one number."""
    for name in ("next_sentence", "multiple_choice"):
        head = model.architecture.heads.get(name)
        if isinstance(head, SequenceHead) and head.problem != "single_label":
            yield f"architecture.heads.{name}.problem", f"{head.problem} in the {name} head"
        if isinstance(head, SequenceHead) and name == "multiple_choice" and head.labels != 1:
            yield f"architecture.heads.{name}.labels", f"{head.labels} numbers for each choice"


def enhanced(model: Model) -> Found:
    """Heads that run an encoder's last layer again where that would not be what it was."""
    arch = model.architecture
    for name, head in arch.heads.items():
        if not isinstance(head, EnhancedMaskDecoder):
            continue
        at, encoder = f"architecture.heads.{name}", arch.encoder
        if encoder is None or arch.decoder is not None or encoder.mask != "bidirectional":
            yield at, f"{model.name} is no encoder that sees both sides"
        elif getattr(encoder.input, "positions", None) is not None:
            yield at, "the input tells the positions already"
        elif getattr(encoder.input, "query_vector", False):
            yield at, "a second stream of queries"
        elif not isinstance(encoder.layer(encoder.depth - 1).attention, Attention) or encoder.has_globals:
            yield at, f"{type(encoder.layer(encoder.depth - 1).attention).__name__} in the last layer"


def one_state(model: Model) -> Found:
    """Embedding heads on two stacks."""
    arch = model.architecture
    for name, head in arch.heads.items():
        if isinstance(head, EmbeddingHead) and len(arch.stacks) > 1:
            yield f"architecture.heads.{name}", f"{model.name} is an encoder-decoder"


def one_label(model: Model) -> Found:
    """Models whose replaced-token head is missing or gives more than one number."""
    head = model.architecture.heads.get("replaced_token")
    if head is None:
        yield "architecture.heads", f"{model.name} has no replaced_token head"
    elif not isinstance(head, TokenHead) or head.labels != 1:
        yield "architecture.heads.replaced_token", f"{head.brief()} judges otherwise"
