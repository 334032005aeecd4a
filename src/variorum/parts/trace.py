"""What one forward is asked to keep beside its result: hidden states, attention maps, router decisions."""

from __future__ import annotations

import dataclasses

from torch import Tensor


@dataclasses.dataclass
class Trace:
    """Lists are ``None`` when nobody asked for them.

    ``routing`` holds (probabilities [tokens, E], chosen experts [tokens, k]) per expert layer.
    """

    hidden_states: list[Tensor] | None = None
    attentions: list[Tensor] | None = None
    cross_attentions: list[Tensor] | None = None
    routing: list[tuple[Tensor, Tensor]] | None = None
