"""One symbolic mask, lowered late to what a backend wants. Causality is said, never inferred."""

from __future__ import annotations

import dataclasses

from torch import Tensor

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

    def is_plain(self, where: Where) -> bool:
        """Whether a fused kernel's own causal or absent mask says the same."""
        if where.padded or where.allowed is not None or where.q_documents is not None:
            return False
        queries, keys = where.q_order.shape[-1], where.k_order.shape[-1]
        # The farthest key any query sees: W - 1 back when causal, W/2 to either side otherwise.
        if self.window and keys > (self.window if self.causal else self.window // 2 + 1):
            return False
        return not self.causal or queries == keys
