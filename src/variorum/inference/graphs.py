"""A decoding step that does the same on the same tensors every time, recorded once and replayed.

A step over few rows is hundreds of small kernels, and a GPU is done with each before the host has started the next. A
CUDA graph starts all of them at once; what it replays may neither ask the host anything nor meet another shape.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from variorum.attention.cache import Cache, CachePlan
from variorum.attention.cache.fixed import Fixed
from variorum.errors import UsageError
from variorum.model import Model
from variorum.parts.embeddings import positions_below
from variorum.spec.architecture import Stack
from variorum.spec.feedforward import Experts
from variorum.spec.positions import Learned

MOST_ROWS = 32  # with more, kernels take longer than it takes to start them
WARM_UPS = 3  # before a step is recorded, libraries choose their kernels and take their memory


def obstacle(stack: Stack, plan: CachePlan) -> str | None:
    """Why a step of ``stack`` cannot do the same every time; ``None`` where it can."""
    experts = any(isinstance(stack.layer(index).feedforward, Experts) for index in range(stack.depth))
    reasons = {
        "it remembers states, not keys": bool(stack.memory),
        "its rotation follows the length of the text": stack.settled is not None,
        "its positions depend on which ids are padding": getattr(stack.input.positions, "count", "") == "ids",
        "how many tokens each expert gets is known only when they are routed": experts,
        "its pages change from step to step": plan.kind == "paged",
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


class StaticStep:
    """One token more for every row of ``cache``, in plain torch: reads ``ids`` and ``at`` [B, 1] and the slots.

    Calling it again without a change of ``ids`` and ``at`` changes nothing. Rows may hold fewer than ``room`` tokens.

    Raises:
        UsageError: see :func:`obstacle`.
    """

    def __init__(self, model: Model, cache: Cache) -> None:
        reason = obstacle(model.spec.architecture.main, cache.plan)
        if reason is not None:
            raise UsageError(f"a step of {model.spec.name} cannot be recorded: {reason}", remedy="take ordinary steps")
        self.model = model
        self.ids = torch.zeros(len(cache.lengths), 1, dtype=torch.long, device=next(model.parameters()).device)
        self.at = torch.zeros_like(self.ids)
        self.fixed = Fixed(cache, self.at)
        self.room = min(self.fixed.room, _positions(model))

    @torch.no_grad()
    def __call__(self) -> Tensor:
        """Scores of the token after ``ids``, [B, 1, V]."""
        beside = self.model.spec.architecture.encoder is not None
        with positions_below(self.room):
            logits = self.model(**{"decoder_input_ids" if beside else "input_ids": self.ids}, cache=self.fixed).logits
        assert logits is not None
        return logits


class Recorder(Protocol):
    """What can do again what it saw done."""

    def record(self, step: StaticStep) -> Tensor:
        """Note what ``step`` does; the tensor in which each replay leaves its result."""

    def replay(self) -> None:
        """Do it again, on the same tensors."""


class CudaGraph:
    """A CUDA graph."""

    def record(self, step: StaticStep) -> Tensor:
        """As of a recorder; what is captured is computed at the first replay."""
        with torch.cuda.device(step.ids.device):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UPS):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                return step()

    def replay(self) -> None:
        self._graph.replay()


class Replayed:
    """Steps of the rows of ``cache`` by replay, for as long as their tensors stay where they are.

    Tensors move when rows leave and when slots run out, twice as many each time. A step is recorded only for tensors
    that were there one step before: a beam search beside an encoder moves them with every token.
    """

    def __init__(self, model: Model, cache: Cache, recorder: Callable[[], Recorder] = CudaGraph) -> None:
        self.model, self.cache, self._recorder = model, cache, recorder
        self._held: list[Tensor] = []
        self._step: StaticStep | None = None
        self._again: tuple[Recorder, Tensor] | None = None
        self._works = True

    def read(self, ids: Tensor) -> Tensor | None:
        """Read a token of each row, [B, 1], and score the next, [B, 1, V]; ``None``: read nothing, do it otherwise."""
        if not self._works or ids.shape[1] != 1 or len(ids) > MOST_ROWS:
            return None
        held = _tensors(self.cache)
        if len(held) != len(self._held) or any(a is not b for a, b in zip(held, self._held, strict=True)):
            self._held, self._step, self._again = held, None, None
            return None
        step = self._step = self._step or StaticStep(self.model, self.cache)
        if max(self.cache.lengths) >= step.room:
            return None
        step.ids.copy_(ids)
        step.at.copy_(torch.tensor(self.cache.lengths)[:, None])
        again = self._again = self._again or self._recorded(step)
        if again is None:
            return None
        again[0].replay()
        self.cache.lengths = [length + 1 for length in self.cache.lengths]
        return again[1].clone()

    def _recorded(self, step: StaticStep) -> tuple[Recorder, Tensor] | None:
        recorder = self._recorder()
        try:
            return recorder, recorder.record(step)
        except RuntimeError as error:
            self._works = False
            warnings.warn(f"decoding goes on without a CUDA graph, more slowly: {error}", stacklevel=2)
            return None


def replayed(model: Model, cache: Cache) -> Replayed | None:
    """Steps by replay where they pay: on CUDA, for a stack whose steps can do the same every time."""
    if next(model.parameters()).device.type != "cuda" or obstacle(model.spec.architecture.main, cache.plan):
        return None
    return Replayed(model, cache)


def _tensors(cache: Cache) -> list[Tensor]:
    """All that a step reads of a cache."""
    held = [one for slots in cache.layers for one in slots.raw]
    held += [one for once in cache.cross for one in once.raw]
    return held + [one for one in (cache.encoded, cache.encoded_order) if one is not None]


def _positions(model: Model) -> int:
    """So many tokens the input has positions for, as far as it looks them up."""
    inputs = model.decoder.input
    stored, scheme = getattr(inputs, "stored", None), inputs.spec.positions
    if isinstance(scheme, Learned):
        return scheme.rows - scheme.offset
    return sys.maxsize if stored is None else len(stored)
