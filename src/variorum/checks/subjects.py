"""The models that claims are tried on: nano ones in float64, with every parameter away from 0 and 1.

A fresh model has zero biases and unit norms, which would hide what they do; here nothing is at rest.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from variorum.attention.output import Output
from variorum.builder import build
from variorum.checks.finding import NotApplicable
from variorum.face import load
from variorum.family import find
from variorum.family import reference as reference_file
from variorum.hub import spec_named
from variorum.model import Model
from variorum.objectives import Symbols
from variorum.spec.model import Model as Spec
from variorum.spec.small import SCALES, scaled, worded

VOCAB, LENGTH = 64, 64
PAD, FIRST, END, MASK, STOP = 0, 1, 2, 3, 6
SENTINELS = tuple(range(VOCAB - 1, VOCAB - 17, -1))
WORDS = range(STOP + 1, VOCAB - len(SENTINELS))
"""Ids that mean nothing to any model of the family."""
SYMBOLS = Symbols(
    vocab=VOCAB, special=frozenset((PAD, FIRST, END, MASK, *SENTINELS)), mask=MASK, pad=PAD, end=END,
    sentinels=SENTINELS, pair=((FIRST, 0), (None, 0), (END, 0), (None, 1), (END, 1)), stops=frozenset((STOP,)),
)  # fmt: skip
SAME, MOVED = 1e-12, 1e-9
"""Shares of the largest value: below the first nothing but rounding differs, above the second something does."""


class Side(NamedTuple):
    """One way in: what of the model's states hears what of its tokens, and whether it may hear later ones."""

    name: str
    causal: bool
    states: Callable[[Tensor], Tensor]


def nano(spec: Spec) -> Spec:
    """``spec`` at a width of 128 with four layers, and a vocabulary of 64."""
    pads = getattr(spec.architecture.source, "pad_id", None) is not None
    return worded(scaled(spec, SCALES["nano"]), vocab=VOCAB, pad_id=PAD if pads else None, length=LENGTH)


def word_head(spec: Spec) -> str | None:
    """The first head that scores words, if there is one."""
    return next((head for head in spec.architecture.heads if head.endswith("_lm")), None)


def fresh(spec: Spec, head: str | None = None) -> Model:
    """A new model of this size in float64, nothing of it at rest.

    Raises:
        NotApplicable: it reads something else than text, or attends to nothing.
    """
    return shaken(build(attending(spec), head=head))


def attending(spec: Spec) -> Spec:
    """``spec``, if it is a transformer of text."""
    if not spec.architecture.stacks:
        raise NotApplicable(f"{spec.name} attends to nothing", remedy="name a transformer")
    if spec.architecture.source.reads != "input_ids":
        raise NotApplicable(f"{spec.name} does not read text", remedy="name a model of text")
    return spec


def shaken(model: Model, seed: int = 0) -> Model:
    """``model`` in float64, every parameter moved by normal noise of 0.2."""
    model = model.double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def words(batch: int, length: int, seed: int = 0) -> Tensor:
    """Random words, [batch, length]."""
    shape, generator = (batch, length), torch.Generator().manual_seed(seed)
    return torch.randint(WORDS.start, WORDS.stop, shape, generator=generator)


def another(ids: Tensor, place: int) -> Tensor:
    """``ids`` [B, T] with another word at ``place``."""
    changed = ids.clone()
    changed[:, place] = (ids[:, place] - WORDS.start + 5) % len(WORDS) + WORDS.start
    return changed


def read(model: Model, ids: Tensor, written: Tensor | None = None) -> Output:
    """A forward; an encoder-decoder writes ``written``, or what it reads."""
    beside = {"decoder_input_ids": ids if written is None else written} if is_seq2seq(model) else {}
    return model(ids, **beside)


def is_seq2seq(model: Model) -> bool:
    """Whether it has an encoder and a decoder."""
    return len(model.spec.architecture.stacks) == 2


def sides(model: Model, length: int) -> list[Side]:
    """Its states as functions of tokens: of those it reads, and of those it writes where it does both."""
    if not is_seq2seq(model):
        name = "decoder" if model.is_decoder else "encoder"
        return [Side(name, model.is_decoder, lambda ids: read(model, ids).last_hidden_state)]
    other = words(1, length, seed=1)
    return [
        Side("decoder", True, lambda ids: read(model, other, ids).last_hidden_state),
        Side("decoder, of its source", False, lambda ids: read(model, ids, other).last_hidden_state),
    ]


def embedded(model: Model, ids: Tensor) -> Tensor:
    """The looked-up vectors of what a model of one stack reads, as a leaf."""
    stack = model.encoder if model.spec.architecture.encoder is not None else model.decoder
    return stack.input.look(ids).detach().requires_grad_()


def gap(a: Tensor, b: Tensor) -> float:
    """The largest difference, as a share of the largest value."""
    return float((a - b).detach().abs().max() / b.detach().abs().max())


def moves(after: Tensor, before: Tensor) -> Tensor:
    """How far each state moved, as a share of the largest value, [T]."""
    return ((after - before).detach().abs().amax((0, -1)) / before.detach().abs().max()).cpu()


def named(reference: str) -> Model:
    """The model that a reference means: of a spec a nano one, of a directory or a repository itself, in float64.

    Raises:
        NotFound: nothing has this name. Further kinds as :func:`variorum.face.load`.
    """
    spec = spec_of(reference)
    if spec is not None:
        return fresh(nano(attending(spec)), word_head(spec))
    model = load(reference, dtype="float64")
    attending(model.spec)
    return model


def spec_of(reference: str) -> Spec | None:
    """The spec that a name or a spec file means; ``None`` where it means weights."""
    if reference.lower().endswith(".toml"):
        return reference_file.read(reference)
    there = "/" in reference or Path(reference).exists()
    return spec_named(reference) if there else find(reference)
