"""How a writer's rows are kept between steps: as ids alone, as keys and values, or as a memory of hidden states.

Each reads prompts and then more tokens of all rows; :class:`~variorum.inference.writer.Writer` is what stands before
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from variorum.attention.cache import Cache, CachePlan
from variorum.inference.graphs import replayed
from variorum.inference.prefix import PrefixCache
from variorum.model import Model

Source = Sequence[Sequence[int]] | Tensor


class State(Protocol):
    """How a writer's rows are kept."""

    def begin(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Read the prompts; scores of the token after each, [B, V]."""

    def read(self, ids: Tensor) -> Tensor:
        """[B, n] -> [B, n, V]"""

    def select(self, rows: Tensor) -> None: ...

    def drop(self, counts: Tensor) -> None: ...


class Rereading:
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
        return _logits(self.model, ids, mask, self.given, beside=bool(self.given), logits_to_keep=keep)


class Caching:
    """Keys and values are kept. Rows hold what is theirs, without padding, and are read so where the model can."""

    def __init__(self, model: Model, source: Source | None, plan: CachePlan, prefixes: PrefixCache | None) -> None:
        self.model, self.plan, self.prefixes = model, plan, prefixes
        self.device, self.source = next(model.parameters()).device, source

    def begin(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        self.cache = Cache(self.plan, rows=len(prompts))
        self.cache.bind(self.model.spec.architecture.main, self.model.spec.name, self.device, len(prompts))
        self.replayed = replayed(self.model, self.cache)
        if self.source is not None or not self.model.packs:
            return self._padded(prompts)
        if self.prefixes is None and self.plan.kind != "paged":
            return self._packed(prompts)
        rows: list[Tensor] = []
        for row, prompt in enumerate(prompts):
            known = self._known(row, prompts)
            rows.append(self._row(row, prompt, known, None if self.prefixes is None else self.prefixes.piece))
        return torch.cat(rows)

    def read(self, ids: Tensor) -> Tensor:
        scores = None if self.replayed is None else self.replayed.read(ids)
        return self._logits(ids) if scores is None else scores

    def select(self, rows: Tensor) -> None:
        self.cache.select(rows)

    def drop(self, counts: Tensor) -> None:
        self.cache.drop(counts.tolist())

    def _packed(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Whole prompts end to end, as many as make a chunk; one that is longer in chunks."""
        found: dict[int, Tensor] = {}
        most = self.plan.chunk or sum(map(len, prompts))
        for rows in _packs([len(prompt) for prompt in prompts], most):
            if len(rows) == 1:
                found[rows[0]] = self._row(rows[0], prompts[rows[0]], 0, None)
                continue
            lengths = [len(prompts[row]) for row in rows]
            ids = torch.tensor([[one for row in rows for one in prompts[row]]], device=self.device)
            last = torch.zeros_like(ids, dtype=torch.bool)
            last[0, torch.tensor(lengths, device=self.device).cumsum(0) - 1] = True
            with self.cache.only(rows):
                logits = self._logits(ids, lengths=lengths, logits_to_keep=last)
            found |= {row: logits[number : number + 1] for number, row in enumerate(rows)}
        return torch.cat([found[row] for row in range(len(prompts))])

    def _row(self, row: int, prompt: Sequence[int], known: int, piece: int | None) -> Tensor:
        """One row's prompt, of which it holds ``known`` tokens, in pieces or in chunks; the last scores, [1, V]."""
        size = piece or self.plan.chunk or len(prompt)
        with self.cache.only([row]):
            while known < len(prompt):
                stop = min(len(prompt), known - known % size + size)
                ids = torch.tensor([list(prompt[known:stop])], device=self.device)
                scores = self._logits(ids, lengths=[stop - known], logits_to_keep=1)
                if self.prefixes is not None and stop % size == 0:
                    self.prefixes.keep(self.cache, row, prompt[:stop], self.plan)
                known = stop
        return scores[:, -1]

    def _known(self, row: int, prompts: Sequence[Sequence[int]]) -> int:
        """Let a row begin as another or as an earlier text did; so many of its tokens need not be read."""
        prompt, source, shared = prompts[row], 0, 0
        if self.plan.kind == "paged":
            for other in range(row):
                common = _common(prompt[:-1], prompts[other])
                source, shared = (other, common) if common > shared else (source, shared)
        if self.prefixes is not None and self.prefixes.known(prompt, self.plan) > shared:
            return self.prefixes.restore(self.cache, row, prompt, self.plan)
        return self.cache.fork(source, row, shared) if shared else 0

    def _padded(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """All rows together, padded on the left; the padding is not kept."""
        ids, mask = padded(prompts, self.device)
        size = self.plan.chunk or ids.shape[1]
        for at in range(0, ids.shape[1], size):
            near = None if mask is None else mask[:, at : at + size]
            scores = self._logits(ids[:, at : at + size], near, logits_to_keep=1)
        return scores[:, -1]

    def _logits(self, ids: Tensor, mask: Tensor | None = None, **how: object) -> Tensor:
        unread = self.source if self.cache.encoded is None else None
        given = _given(unread, self.device, packed=self.model.packs)
        return _logits(self.model, ids, mask, given, beside=self.source is not None, cache=self.cache, **how)


class Remembering:
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


def _given(source: Source | None, device: torch.device, *, packed: bool = False) -> dict[str, Any]:
    """A source as the encoder's inputs."""
    if source is None:
        return {}
    if isinstance(source, Tensor):
        return {"input_features": source}
    if packed:
        ids = torch.tensor([[one for text in source for one in text]], device=device)
        return {"input_ids": ids, "lengths": [len(text) for text in source]}
    ids, mask = padded(source, device)
    return {"input_ids": ids} | ({} if mask is None else {"attention_mask": mask})


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many first ids they share."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _packs(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Rows in packs of at most ``most`` tokens, or of one row; those of one length stand together."""
    pack: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if pack and sum(lengths[one] for one in pack) + lengths[row] > most:
            yield pack
            pack = []
        pack.append(row)
    yield pack


@torch.no_grad()
def _logits(
    model: Model, ids: Tensor, mask: Tensor | None, given: dict[str, Any], *, beside: bool, **how: object
) -> Tensor:
    """Scores of the writing stack over ``ids``, [B, n, V]; ``given`` is what an encoder reads ``beside`` it."""
    names = ("decoder_input_ids", "decoder_attention_mask") if beside else ("input_ids", "attention_mask")
    logits = model(**dict(zip(names, (ids, mask), strict=True)), **given, **how).logits
    assert logits is not None
    return logits


def _rows(memory: list[Tensor] | None, at: Tensor) -> list[Tensor] | None:
    return None if memory is None else [states[at] for states in memory]
