"""One symbolic mask, lowered late to what a backend wants. Causality is said, never inferred."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor
from torch.nn import functional as F

from variorum.parts.where import Where


@dataclasses.dataclass(frozen=True)
class Mask:
    """Which order relations may be seen.

    ``window`` W: the last W keys, self included, when causal; else |q - k| <= W/2. 0 or ``None`` is no window.
    """

    causal: bool
    window: int | None = None

    def visible(self, where: Where) -> Tensor:
        """True where query may see key, bool [B or 1, 1, Q, K]."""
        return where.remember(("visible", self), lambda: self._visible(where))

    def _visible(self, where: Where) -> Tensor:
        q, k = where.q_order[:, :, None], where.k_order[:, None, :]
        seen = (k >= 0) & (q >= 0)
        if self.causal:
            seen = seen & (k <= q)
            if self.window:
                seen = seen & (k > q - self.window)
        elif self.window:
            seen = seen & ((q - k).abs() <= self.window // 2)
        if where.q_documents is not None and where.k_documents is not None:
            seen = seen & (where.q_documents[:, :, None] == where.k_documents[:, None, :])
        if where.allowed is not None:
            seen = seen & where.allowed
        return seen[:, None]

    def blocks(self, where: Where, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        """What blocks of ``rows`` queries by ``columns`` keys hold: anything to see, and nothing hidden; bool [N, M].

        Told from the ends of each block alone: a block that is said to hold something may turn out not to.
        """
        q, k = _Ends.of(where.q_order, rows), _Ends.of(where.k_order, columns)
        q_low, q_high, k_low, k_high = q.low[..., None], q.high[..., None], k.low[:, None], k.high[:, None]
        some = (q_high >= 0) & (k_high >= 0)
        every = q.real[..., None] & k.real[:, None]
        if self.causal:
            some, every = some & (k_low <= q_high), every & (k_high <= q_low)
        if self.window:
            before, after = (self.window - 1, 0) if self.causal else (self.window // 2, self.window // 2)
            some = some & (k_high >= q_low - before) & (k_low <= q_high + after)
            every = every & (k_low >= q_high - before) & (k_high <= q_low + after)
        if where.q_documents is not None and where.k_documents is not None:
            q, k = _Ends.of(where.q_documents, rows), _Ends.of(where.k_documents, columns)
            some = some & (k.low[:, None] <= q.high[..., None]) & (k.high[:, None] >= q.low[..., None])
            every = torch.zeros_like(every)
        if where.allowed is not None:
            every = torch.zeros_like(every)
        return some.any(0), every.all(0)

    def is_plain(self, where: Where) -> bool:
        """Whether a fused kernel's own causal or absent mask says the same."""
        if where.padded or where.allowed is not None or where.q_documents is not None:
            return False
        queries, keys = where.q_order.shape[-1], where.k_order.shape[-1]
        # The farthest key any query sees: W - 1 back when causal, W/2 to either side otherwise.
        if self.window and keys > (self.window if self.causal else self.window // 2 + 1):
            return False
        return not self.causal or queries in (1, keys)  # a query alone is the newest: nothing comes after it


@dataclasses.dataclass(frozen=True)
class _Ends:
    """The least and the greatest number in each block that is not -1, and whether none is, [B or 1, N]."""

    low: Tensor
    high: Tensor
    real: Tensor

    @staticmethod
    def of(marks: Tensor, size: int) -> _Ends:
        """Of runs of ``size`` of ``marks`` [B or 1, T]; the last may be shorter."""
        short, most = -marks.shape[-1] % size, torch.iinfo(marks.dtype).max
        up, down = (F.pad(marks, (0, short), value=fill).unflatten(-1, (-1, size)) for fill in (-1, most))
        return _Ends(down.masked_fill(down < 0, most).amin(-1), up.amax(-1), (down >= 0).all(-1))
