"""The decoding state of B rows behind one call: decoders, encoder-decoders and models with a memory alike.

What is chosen, and when a row ends, is not decided here; see :mod:`variorum.inference.generate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from variorum.attention.cache import PLAN, Cache, CachePlan
from variorum.errors import UsageError
from variorum.model import Model

Source = Sequence[Sequence[int]] | Tensor


class Writer:
    """B rows that are written left to right, each as if it were alone.

    Args:
        model: a decoder, or an encoder-decoder.
        prompts: B lists of ids that the writing stack has read before the first new token; none may be empty.
        plan: what is kept between calls; ``None`` keeps nothing and reads everything again at each step.
        source: what an encoder reads: B lists of ids, or spectrograms [B, mels, frames].

    Raises:
        UsageError: an empty prompt.
    """

    def __init__(
        self, model: Model, prompts: Sequence[Sequence[int]], plan: CachePlan | None = PLAN, *,
        source: Source | None = None,
    ) -> None:  # fmt: skip
        if any(len(prompt) == 0 for prompt in prompts):
            raise UsageError("an empty prompt gives nothing to continue", remedy="give at least one token")
        self._state: _State
        if plan is None:
            self._state = _Rereading(model, source)
        elif model.spec.architecture.main.memory:
            self._state = _Remembering(model)
        else:
            self._state = _Caching(model, source, plan)
        self._scores = self._state.begin(prompts)[:, None]
        self._ends = torch.zeros(len(prompts), dtype=torch.long, device=self._scores.device)

    @property
    def logits(self) -> Tensor:
        """Scores of the next token of each row, [B, V]."""
        return self._scores[torch.arange(len(self._ends), device=self._ends.device), self._ends]

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        """Read n more tokens of each row, [B, n], and score what may follow each of them, [B, n, V]."""
        before = self.logits[:, None]
        scores = self._state.read(ids)
        self._scores = torch.cat((before, scores), 1)
        self._ends = torch.full_like(self._ends, ids.shape[1])
        return scores

    def select(self, rows: Sequence[int] | Tensor) -> None:
        """Keep these rows, in this order; a row may come more than once (beams) or not at all (ended)."""
        at = torch.as_tensor(rows, dtype=torch.long, device=self._ends.device)
        self._scores, self._ends = self._scores[at], self._ends[at]
        self._state.select(at)

    def drop(self, count: int | Sequence[int]) -> None:
        """Forget the last ``count`` tokens of every row, or so many of each: no more than the last step read.

        Raises:
            UsageError: more than that.
        """
        counts = torch.as_tensor(count, device=self._ends.device).expand(len(self._ends))
        if bool((counts > self._ends).any()) or bool((counts < 0).any()):
            raise UsageError("only tokens of the last step can be forgotten", remedy="drop fewer")
        self._ends = self._ends - counts
        if bool(counts.any()):
            self._state.drop(counts)


def begin(
    model: Model, prompts: Sequence[Sequence[int]], plan: CachePlan | None = PLAN, *, start: int | None = None
) -> Writer:  # fmt: skip
    """A writer that continues ``prompts``, or, beside an encoder, answers them from ``start`` (``None``: the spec's).

    Raises:
        UsageError: an empty prompt, or nothing to start with.
    """
    if model.spec.architecture.encoder is None:
        return Writer(model, prompts, plan)
    first = start if start is not None else model.spec.architecture.main.tokens.start_id
    if not isinstance(first, int):
        raise UsageError(f"{model.spec.name} has to be told what to start with", remedy="give its language's id")
    if any(len(prompt) == 0 for prompt in prompts):
        raise UsageError("an empty prompt gives nothing to continue", remedy="give at least one token")
    return Writer(model, [[first] for _ in prompts], plan, source=prompts)


class _State(Protocol):
    """How a writer's rows are kept."""

    def begin(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Read the prompts; scores of the token after each, [B, V]."""

    def read(self, ids: Tensor) -> Tensor:
        """[B, n] -> [B, n, V]"""

    def select(self, rows: Tensor) -> None: ...

    def drop(self, counts: Tensor) -> None: ...


class _Rereading:
    """Nothing is kept but the ids: the definition of what the others must give."""

    def __init__(self, model: Model, source: Source | None) -> None:
        self.model, self.device = model, next(model.parameters()).device
        self.given = _given(source, self.device)

    def begin(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        self.rows = [list(prompt) for prompt in prompts]
        return self._scores(1)[:, -1]

    def read(self, ids: Tensor) -> Tensor:
        for row, new in zip(self.rows, ids.tolist(), strict=True):
            row += new
        return self._scores(ids.shape[1])

    def select(self, rows: Tensor) -> None:
        self.rows = [list(self.rows[row]) for row in rows.tolist()]
        self.given = {name: value[rows] for name, value in self.given.items()}

    def drop(self, counts: Tensor) -> None:
        self.rows = [row[: len(row) - count] for row, count in zip(self.rows, counts.tolist(), strict=True)]

    def _scores(self, keep: int) -> Tensor:
        ids, mask = padded(self.rows, self.device)
        return _logits(self.model, ids, mask, self.given, logits_to_keep=keep)


class _Caching:
    """Keys and values are kept."""

    def __init__(self, model: Model, source: Source | None, plan: CachePlan) -> None:
        self.model, self.plan, self.device = model, plan, next(model.parameters()).device
        self.given, self.cache = _given(source, self.device), Cache(model.spec.architecture.main.depth)

    def begin(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        ids, mask = padded(prompts, self.device)
        size = self.plan.chunk or ids.shape[1]
        for at in range(0, ids.shape[1], size):
            near = None if mask is None else mask[:, at : at + size]
            scores = _logits(self.model, ids[:, at : at + size], near, self.given, cache=self.cache, logits_to_keep=1)
        return scores[:, -1]

    def read(self, ids: Tensor) -> Tensor:
        return _logits(self.model, ids, None, self.given, cache=self.cache)

    def select(self, rows: Tensor) -> None:
        self.given = {name: value[rows] for name, value in self.given.items()}
        self.cache.select(rows)

    def drop(self, counts: Tensor) -> None:
        self.cache.drop(counts)


class _Remembering:
    """A memory of hidden states in the place of a cache: what is older than it is forgotten.

    Rows of one length run together, since padding would take room in the memory.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.device = model, next(model.parameters()).device
        self.groups: list[Tensor] = []
        self.memories: list[list[Tensor] | None] = []
        self.before: list[list[Tensor] | None] = []
        self.last: Tensor | None = None

    def begin(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        for length in sorted({len(prompt) for prompt in prompts}):
            rows = [i for i, prompt in enumerate(prompts) if len(prompt) == length]
            self.groups.append(torch.tensor(rows, device=self.device))
        self.memories = [None] * len(self.groups)
        pieces = [torch.tensor([list(prompts[i]) for i in rows], device=self.device) for rows in self.groups]
        return self._run(pieces, 1)[:, -1]

    def read(self, ids: Tensor) -> Tensor:
        self.before, self.last = list(self.memories), ids
        return self._run([ids[rows] for rows in self.groups], 0)

    def select(self, rows: Tensor) -> None:
        groups, memories, before = [], [], []
        for number, old in enumerate(self.groups):
            same = rows[:, None] == old[None]
            at, which = same.nonzero(as_tuple=True)
            if len(at):
                groups.append(at)
                memories.append(_rows(self.memories[number], which))
                before.append(_rows(self.before[number] if self.before else None, which))
        self.groups, self.memories, self.before = groups, memories, before
        self.last = None if self.last is None else self.last[rows]

    def drop(self, counts: Tensor) -> None:
        assert self.last is not None
        groups, memories, before = [], [], []
        for rows, memory in zip(self.groups, self.before, strict=True):
            for kept in sorted(set((self.last.shape[1] - counts[rows]).tolist())):
                at = (self.last.shape[1] - counts[rows] == kept).nonzero()[:, 0]
                groups.append(rows[at])
                before.append(_rows(memory, at))
                ids = self.last[rows[at], :kept]
                memories.append(
                    self.model(ids, memory=before[-1], logits_to_keep=1).memory if kept else before[-1]
                )  # fmt: skip
        self.groups, self.memories, self.before = groups, memories, before

    def _run(self, pieces: list[Tensor], keep: int) -> Tensor:
        found = []
        for number, ids in enumerate(pieces):
            out = self.model(ids, memory=self.memories[number], logits_to_keep=keep)
            self.memories[number] = out.memory
            found.append(out.logits)
        return torch.cat(found)[torch.cat(self.groups).argsort()]


def padded(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Prompts padded on the left, [B, T], and their mask; no mask when all are equally long."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + list(p) for p in prompts], dtype=torch.long, device=device)
    if all(len(p) == longest for p in prompts):
        return ids, None
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=device)
    return ids, mask


def _given(source: Source | None, device: torch.device) -> dict[str, Tensor]:
    """A source as the encoder's inputs."""
    if source is None:
        return {}
    if isinstance(source, Tensor):
        return {"input_features": source}
    ids, mask = padded(source, device)
    return {"input_ids": ids} | ({} if mask is None else {"attention_mask": mask})


@torch.no_grad()
def _logits(model: Model, ids: Tensor, mask: Tensor | None, given: dict[str, Tensor], **how: object) -> Tensor:
    """Scores of the writing stack over ``ids``, [B, n, V]; ``given`` is what an encoder reads."""
    named = {"decoder_input_ids": ids, "decoder_attention_mask": mask, **given}
    if not given:
        named = {"input_ids": ids, "attention_mask": mask}
    logits = model(**named, **how).logits
    assert logits is not None
    return logits


def _rows(memory: list[Tensor] | None, at: Tensor) -> list[Tensor] | None:
    return None if memory is None else [states[at] for states in memory]
