"""Who uses which experts: how often a model's routers choose each, on given texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from variorum.errors import UsageError
from variorum.inference.encode import longest_input, tensors, tokenizer_of
from variorum.model import Model
from variorum.parts.experts import usage
from variorum.spec.feedforward import Experts


@dataclasses.dataclass(frozen=True)
class Usage:
    """One layer: the tokens that it routed, and how often each expert was chosen, of ``active`` choices a token."""

    layer: int
    tokens: int
    active: int
    chosen: tuple[int, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """Each expert's part of all choices; they sum to 1."""
        return tuple(count / max(1, self.tokens * self.active) for count in self.chosen)

    @property
    def imbalance(self) -> float:
        """The busiest expert's share over an equal one: 1 when all are used alike, their number when one is alone."""
        return max(self.shares) * len(self.chosen)


@torch.no_grad()
def expert_usage(model: Model, texts: Sequence[str], *, batch_size: int = 32) -> list[Usage]:
    """How often each expert of each layer is chosen for ``texts``; padding is not counted.

    Args:
        model: a decoder or an encoder with layers of experts.
        texts: what to read; longer ones are cut to what the model takes.
        batch_size: texts at a time.

    Raises:
        UsageError: it has no experts, or two stacks; or there is nothing to read.
    """
    arch = model.spec.architecture
    stack = arch.main
    layers = [i for i in range(stack.depth) if isinstance(stack.layer(i).feedforward, Experts)]
    if not layers or len(arch.stacks) > 1:
        what = "no experts" if not layers else "experts in two stacks"
        raise UsageError(f"{model.spec.name} has {what}", remedy="take mixtral, qwen2-moe, qwen3-moe or deepseek-v3")
    tokenizer = tokenizer_of(model)
    limit = min((n for n in (longest_input(model), tokenizer.model_max_length) if n), default=None)
    encodings = [one for one in tokenizer.encode_batch(list(texts), max_length=limit) if len(one)]
    if not encodings:
        raise UsageError("there is nothing to read", remedy="give a text of at least one token")
    counts: list[Tensor] = []
    for start in range(0, len(encodings), batch_size):
        given = tensors(model, tokenizer.pad(encodings[start : start + batch_size]))
        routing = model(**given, output_routing=True, logits_to_keep=1).routing
        counts.append(usage(routing, given["attention_mask"].bool().flatten()))
    total, tokens = torch.stack(counts).sum(0).tolist(), sum(len(one) for one in encodings)
    actives = [getattr(stack.layer(i).feedforward, "active", 1) for i in layers]
    return [Usage(i, tokens, k, tuple(row)) for i, k, row in zip(layers, actives, total, strict=True)]
