"""A stack: one input, its blocks in order, what is shared between them, and what it remembers."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from variorum.attention.block import Block
from variorum.attention.cache import Cache
from variorum.attention.packed import each
from variorum.attention.two_stream import Query
from variorum.parts.convolution import Convolution
from variorum.parts.dropout import dropout
from variorum.parts.embeddings import build_input
from variorum.parts.norms import build_norm
from variorum.parts.positions import build_shared
from variorum.parts.trace import Trace
from variorum.parts.where import Where
from variorum.spec import architecture as spec


class Stack(nn.Module):
    """One input and its blocks."""

    def __init__(self, stack: spec.Stack, width: int) -> None:
        super().__init__()
        self.spec, self.settled = stack, stack.settled
        self.input = build_input(stack.input, width)
        bidirectional = stack.mask == "bidirectional"
        shared = build_shared(stack.positions, stack.block.attention, width, bidirectional=bidirectional)
        if shared is not None:
            self.positions = shared
        self.layers = nn.ModuleList(
            Block(stack.layer(i), width, shared, causal=not bidirectional) for i in range(stack.depth)
        )
        self.inserts = nn.ModuleDict({str(i): Convolution(c, width) for i, c in stack.inserts.items()})
        self.final_norm = build_norm(stack.final_norm, width)

    def share(self) -> None:
        """Bind the parameters of shared layers to their owners'."""
        for index, layer in enumerate(self.layers):
            for what in ("attention", "feedforward"):
                owner = self.layers[self.spec.owner(index, what)]
                if owner is not layer:
                    for part in (what, f"{what}_norms"):
                        _bind(getattr(layer, part), getattr(owner, part))

    @property
    def packs(self) -> bool:
        """Whether it may read texts end to end: nothing is remembered, and angles do not depend on the longest."""
        return self.settled is None and not self.spec.memory

    def forward(
        self, vectors: Tensor, new: Where, trace: Trace, *, segments: Tensor | None = None,
        query: Query | None = None, memory: list[Tensor] | None = None, memory_order: Tensor | None = None,
        encoded: Tensor | None = None, cross_where: Where | None = None, cache: Cache | None = None,
        backend: str = "auto",
    ) -> tuple[Tensor, list[Tensor] | None]:  # fmt: skip
        """Looked-up vectors [B, T, rank] -> states [B, T, D] (of the query stream if there is one), new memory."""
        given: dict[str, Any] = {"segments": segments, "query": query, "memory": memory, "encoded": encoded}
        given |= {"memory_order": memory_order, "cross_where": cross_where, "cache": cache, "backend": backend}
        if cache is not None and self.settled is not None:
            every, everywhere = cache.again(vectors, new, self.settled)
            if every is not vectors:
                return self._again(every, everywhere, trace, new.k_order.clamp(min=0).expand(len(vectors), -1), given)
        return self._run(vectors, new, trace, **given)

    def _again(
        self, every: Tensor, where: Where, trace: Trace, at: Tensor, given: dict[str, Any]
    ) -> tuple[Tensor, list[Tensor] | None]:
        """All tokens so far, of which those in places ``at`` [B, n] are wanted."""
        if given["cross_where"] is not None:
            across = {"q_positions": where.q_positions, "q_order": where.q_order, "memo": {}}
            given = {**given, "cross_where": dataclasses.replace(given["cross_where"], **across)}
        anew = trace.alike()
        x, kept = self._run(every, where, anew, **given)
        trace.take(anew, at)
        return x[torch.arange(len(x), device=x.device)[:, None], at], kept

    def _run(
        self, vectors: Tensor, new: Where, trace: Trace, *, segments: Tensor | None, query: Query | None,
        memory: list[Tensor] | None, memory_order: Tensor | None, encoded: Tensor | None, cross_where: Where | None,
        cache: Cache | None, backend: str,
    ) -> tuple[Tensor, list[Tensor] | None]:  # fmt: skip
        x = embedded = self.input(vectors, new.q_positions, segments)
        wheres = [new] * self.spec.depth if cache is None else cache.extend(new, len(x))
        if memory is None and self.spec.first_memory == "zeros":
            memory = [x.new_zeros(len(x), self.spec.memory, x.shape[-1])] * self.spec.depth
        if memory is not None:
            new = _after_memory(new, memory[0].shape[1], memory_order)
            wheres = [new] * self.spec.depth
            query = None if query is None else (query[0], _after_memory(query[1], memory[0].shape[1], memory_order))
        kept: list[Tensor] | None = [] if self.spec.memory or memory is not None else None
        g, g_where = query or (None, None)
        for index, layer in enumerate(self.layers):
            if trace.hidden_states is not None:
                trace.hidden_states.append(x if g is None else g)
            if kept is not None:
                kept.append(_last(x, memory[index] if memory else None, self.spec.memory).detach())
            if layer is self.layers[-1]:
                trace.below = x
            source = None if memory is None else torch.cat((memory[index], x), 1)
            if g is not None and g_where is not None:
                g = layer(g, g_where, g_where, trace, kv_input=x if source is None else source, backend=backend)
            x = layer(
                x, new, wheres[index], trace, kv_input=source, encoded=encoded, cross_where=cross_where,
                slots=cache.layers[index] if cache else None, cross_slots=cache.cross[index] if cache else None,
                backend=backend,
            )  # fmt: skip
            if str(index) in self.inserts:
                x = self._inserted(index, x, embedded, new)
        x = dropout(self.final_norm(x if g is None else g), self.spec.dropout, self.training)
        if trace.hidden_states is not None:
            trace.hidden_states.append(x)
        return x, kept

    def _inserted(self, index: int, x: Tensor, embedded: Tensor, new: Where) -> Tensor:
        insert = self.inserts[str(index)]
        if new.lengths is not None:
            return each(new, lambda _, *texts: insert(*texts, None), x, embedded)
        return insert(x, embedded, new.q_order >= 0 if new.padded else None)

    def again(self, asked: Tensor, where: Where, trace: Trace, steps: int, backend: str) -> Tensor:
        """The last layer ``steps`` more times over the states below it, with ``asked`` as its queries, [B, T, D]."""
        below, kept = trace.below, Trace(routing=trace.routing)
        for _ in range(steps):
            asked = self.layers[-1](asked, where, where, kept, kv_input=below, backend=backend)
        return self.final_norm(asked)


def _after_memory(new: Where, length: int, order: Tensor | None) -> Where:
    """Where the same tokens stand when ``length`` remembered ones come before them, in ``order`` [B or 1, length]."""
    steps = torch.arange(length, device=new.q_order.device)[None] if order is None else order
    past = F.pad(steps, (1, 0), value=-1).amax(-1, keepdim=True) + 1
    keys: dict[str, Any] = {}
    for name in ("positions", "order"):
        own = {side: getattr(new, f"{side}_{name}") for side in "qk"}
        shifted = {side: torch.where(at >= 0, at + past, at) for side, at in own.items()}
        rows = max(len(steps), len(shifted["k"]))
        keys[f"k_{name}"] = torch.cat((steps.expand(rows, -1), shifted["k"].expand(rows, -1)), 1)
        keys[f"q_{name}"] = shifted["q"]
    segments = new.k_segments
    if segments is not None:
        keys["k_segments"] = torch.cat((segments.new_zeros(len(segments), length), segments), 1)
    allowed = new.allowed
    if allowed is not None:
        allowed = F.pad(allowed, (length, 0), value=True)
    return dataclasses.replace(new, **keys, allowed=allowed, padded=True, memo={})


def _last(x: Tensor, old: Tensor | None, length: int) -> Tensor:
    joined = x if old is None else torch.cat((old, x), 1)
    return joined[:, max(0, joined.shape[1] - length) :] if length else joined


def _bind(module: nn.Module, owner: nn.Module) -> None:
    """Make every parameter of ``module`` the very parameter of ``owner``."""
    for (name, part), (_, other) in zip(module.named_modules(), owner.named_modules(), strict=True):
        del name
        for key in part._parameters:
            part._parameters[key] = other._parameters[key]
