"""What one forward is asked to keep beside its result: hidden states, attention maps, router decisions."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor


@dataclasses.dataclass
class Trace:
    """Lists are ``None`` when nobody asked for them.

    ``routing`` holds (probabilities [tokens, E], chosen experts [tokens, k]) per expert layer, ``below`` the input of
    the last layer [B, T, D], ``top`` its output where heads read a mix of all layers.
    """

    hidden_states: list[Tensor] | None = None
    attentions: list[Tensor] | None = None
    cross_attentions: list[Tensor] | None = None
    routing: list[tuple[Tensor, Tensor]] | None = None
    below: Tensor | None = None
    top: Tensor | None = None

    def alike(self) -> Trace:
        """An empty trace that keeps the same things."""
        return Trace(
            _alike(self.hidden_states), _alike(self.attentions), _alike(self.cross_attentions), _alike(self.routing)
        )

    def take(self, other: Trace, at: Tensor) -> None:
        """Add what ``other`` kept of the tokens in places ``at`` [B, n] of each row."""
        rows = torch.arange(len(at), device=at.device)[:, None]

        def of_queries(maps: Tensor) -> Tensor:
            return maps.transpose(1, 2)[rows, at].transpose(1, 2)

        def of_tokens(flat: Tensor) -> Tensor:
            return flat.unflatten(0, (len(at), -1))[rows, at].flatten(0, 1)

        if self.hidden_states is not None:
            self.hidden_states += [state[rows, at] for state in other.hidden_states or ()]
        if self.attentions is not None:
            self.attentions += [of_queries(maps) for maps in other.attentions or ()]
        if self.cross_attentions is not None:
            self.cross_attentions += [of_queries(maps) for maps in other.cross_attentions or ()]
        if self.routing is not None:
            self.routing += [(of_tokens(share), of_tokens(chosen)) for share, chosen in other.routing or ()]


def _alike(kept: list[Any] | None) -> list[Any] | None:
    return None if kept is None else []
