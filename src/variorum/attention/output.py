"""What a forward of a model returns."""

from __future__ import annotations

import dataclasses

from torch import Tensor

from variorum.attention.cache import Cache
from variorum.parts.spans import Answers


@dataclasses.dataclass
class Output:
    """What a forward returns. ``logits`` follow the head; padded positions are undefined. An adaptive softmax, whose
    loss looks only at some words, gives none beside a loss.

    ``routing`` holds (probabilities [B·T, E], chosen experts [B·T, k]) for each layer of experts, padding included.
    ``memory`` is the list of [B, M, D] states to pass to the next segment; ``hidden_states`` runs from the embedded
    input to the last layer's normed output; ``answers`` are those of an answer_span head.
    """

    last_hidden_state: Tensor
    logits: Tensor | None = None
    logits_by_head: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    pooled: Tensor | None = None
    loss: Tensor | None = None
    hidden_states: list[Tensor] | None = None
    attentions: list[Tensor] | None = None
    cross_attentions: list[Tensor] | None = None
    routing: list[tuple[Tensor, Tensor]] | None = None
    encoder_last_hidden_state: Tensor | None = None
    cache: Cache | None = None
    memory: list[Tensor] | None = None
    answers: Answers | None = None
    start_logits: Tensor | None = None
    end_logits: Tensor | None = None
