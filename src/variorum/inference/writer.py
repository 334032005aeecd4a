"""The decoding state of B rows behind one call: decoders, encoder-decoders and models with a memory alike.

What is chosen, and when a row ends, is not decided here; see :mod:`variorum.inference.generate`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from variorum.attention.cache import PLAN, CachePlan
from variorum.errors import UsageError
from variorum.inference.prefix import PrefixCache
from variorum.inference.states import Caching, Remembering, Rereading, Source, State
from variorum.model import Model


class Writer:
    """B rows that are written left to right, each as if it were alone.

    Args:
        model: a decoder, or an encoder-decoder.
        prompts: B lists of ids that the writing stack has read before the first new token; none may be empty.
        plan: what is kept between calls; ``None`` keeps nothing and reads everything again at each step.
        source: what an encoder reads: B lists of ids, or spectrograms [B, mels, frames].
        prefixes: beginnings of earlier texts, which are not read again.

    Raises:
        UsageError: an empty prompt, a plan that the model cannot keep, or prefixes that it cannot use.
    """

    def __init__(
        self, model: Model, prompts: Sequence[Sequence[int]], plan: CachePlan | None = PLAN, *,
        source: Source | None = None, prefixes: PrefixCache | None = None,
    ) -> None:  # fmt: skip
        if any(len(prompt) == 0 for prompt in prompts):
            raise UsageError("an empty prompt gives nothing to continue", remedy="give at least one token")
        self._state = _state(model, plan, source, prefixes)
        # A rotation that follows the length of the text asks for every token at the length that it has.
        self._singly = model.decoder.settled is not None
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
        pieces = ids.split(1, 1) if self._singly else (ids,)
        scores = torch.cat([self._state.read(piece) for piece in pieces], 1) if self._singly else self._state.read(ids)
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
        if bool(counts.any()):
            self._state.drop(counts)
        self._ends = self._ends - counts


def begin(
    model: Model, prompts: Sequence[Sequence[int]], plan: CachePlan | None = PLAN, *, start: int | None = None,
    prefixes: PrefixCache | None = None,
) -> Writer:  # fmt: skip
    """A writer that continues ``prompts``, or, beside an encoder, answers them from ``start`` (``None``: the spec's).

    Raises:
        UsageError: an empty prompt, or nothing to start with.
    """
    if model.spec.architecture.encoder is None:
        return Writer(model, prompts, plan, prefixes=prefixes)
    first = start if start is not None else model.spec.architecture.main.tokens.start_id
    if not isinstance(first, int):
        raise UsageError(f"{model.spec.name} has to be told what to start with", remedy="give its language's id")
    if any(len(prompt) == 0 for prompt in prompts):
        raise UsageError("an empty prompt gives nothing to continue", remedy="give at least one token")
    return Writer(model, [[first] for _ in prompts], plan, source=prompts, prefixes=prefixes)


def _state(model: Model, plan: CachePlan | None, source: Source | None, prefixes: PrefixCache | None) -> State:
    if prefixes is not None:
        prefixes.require(model, plan)
    if plan is None:
        return Rereading(model, source)
    if model.spec.architecture.main.memory:
        return Remembering(model)
    return Caching(model, source, plan, prefixes)
