"""What other numbers for the weights cost: the same model with and without them, on a text."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from variorum.errors import UsageError
from variorum.inference.encode import longest_input, tokenizer_of
from variorum.inference.vectors import embed
from variorum.model import Model

WINDOW = 512  # tokens that are scored together, where the model takes as many
EVERY = 7  # of which masked ones are one in so many


@dataclasses.dataclass(frozen=True)
class Harm:
    """``measure`` of the model as it is and with the other numbers, over ``tokens`` tokens or texts."""

    measure: Literal["perplexity", "masked-LM loss", "embedding cosine"]
    before: float
    after: float
    tokens: int

    @property
    def relative(self) -> float:
        """The change as a part of what it was."""
        return self.after / self.before - 1


@torch.no_grad()
def harm(model: Model, other: Model, text: str, *, tokens: int = 2048) -> Harm:
    """Perplexity of a decoder, masked-LM loss of an encoder with that head, cosine of the vectors of any other.

    Args:
        model: with its tokenizer.
        other: the same model with other numbers.
        text: of which the first ``tokens`` tokens are read, in windows.

    Raises:
        UsageError: no tokenizer, or a text of less than two tokens.
    """
    tokenizer = tokenizer_of(model)
    ids = tokenizer.encode(text).ids[:tokens]
    if len(ids) < 2:
        raise UsageError(f"a text of {len(ids)} tokens measures nothing", remedy="give a longer one")
    size = min(WINDOW, longest_input(model) or WINDOW)
    windows = [torch.tensor([ids[at : at + size]]) for at in range(0, len(ids) - 1, size)]
    if "causal_lm" in model.head_names:
        nats = [_nats(one, windows) for one in (model, other)]
        return Harm("perplexity", math.exp(nats[0]), math.exp(nats[1]), len(ids))
    mask = tokenizer.mask_id
    if "masked_lm" in model.head_names and mask is not None:
        losses = [_masked(one, windows, mask) for one in (model, other)]
        return Harm("masked-LM loss", losses[0], losses[1], len(ids))
    texts = [paragraph for paragraph in text.split("\n\n") if paragraph.strip()][:64]
    ours, theirs = (embed(one, texts)[0].float() for one in (model, other))
    return Harm("embedding cosine", 1.0, float(F.cosine_similarity(ours, theirs).mean()), len(texts))


def _nats(model: Model, windows: list[Tensor]) -> float:
    """The mean surprise of each token after those before it in its window."""
    total, count = 0.0, 0
    for ids in windows:
        logits = model(ids).logits
        assert logits is not None
        total += float(F.cross_entropy(logits[0, :-1].float(), ids[0, 1:], reduction="sum"))
        count += ids.shape[1] - 1
    return total / count


def _masked(model: Model, windows: list[Tensor], mask: int) -> float:
    """The mean loss at every seventh token, masked."""
    total, count = 0.0, 0
    for ids in windows:
        hidden = torch.arange(ids.shape[1])[None] % EVERY == EVERY - 1
        logits = model(ids.masked_fill(hidden, mask)).logits
        assert logits is not None
        total += float(F.cross_entropy(logits[hidden].float(), ids[hidden], reduction="sum"))
        count += int(hidden.sum())
    return total / max(count, 1)
