"""Sparse experts: a router picks a few gated MLPs per token; tokens are grouped by expert, one product each."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from variorum.parts.feedforward import ACTIVATIONS, GatedMLP
from variorum.parts.trace import Trace
from variorum.spec import feedforward as spec


class SoftmaxRouter(nn.Module):
    """Softmax over all experts, top k kept. [N, D] -> weights [N, k], chosen [N, k], probabilities [N, E]."""

    def __init__(self, ff: spec.Experts, router: spec.SoftmaxRouter, width: int) -> None:
        super().__init__()
        self.active, self.normalise = ff.active, router.normalise
        self.weight = nn.Parameter(torch.empty(ff.count, width))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = F.linear(x, self.weight)
        probabilities = logits.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        weights, chosen = probabilities.topk(self.active, dim=-1)
        if self.normalise:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights, chosen, probabilities


class SigmoidRouter(nn.Module):
    """DeepSeek-V3's router, in float32 or better. Same shapes as :class:`SoftmaxRouter`."""

    def __init__(self, ff: spec.Experts, router: spec.SigmoidRouter, width: int) -> None:
        super().__init__()
        self.active, self.router = ff.active, router
        self.weight = nn.Parameter(torch.empty(ff.count, width))
        self.correction = nn.Parameter(torch.zeros(ff.count), requires_grad=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        wide = torch.promote_types(x.dtype, torch.float32)
        scores = F.linear(x.to(wide), self.weight.to(wide)).sigmoid()
        choice = scores.detach() + self.correction.to(wide)
        groups = choice.unflatten(-1, (self.router.groups, -1))
        group_scores = groups.topk(min(2, groups.shape[-1]), dim=-1).values.sum(-1)
        kept = group_scores.topk(self.router.active_groups, dim=-1).indices
        closed = torch.ones_like(group_scores, dtype=torch.bool).scatter(-1, kept, False)
        chosen = groups.masked_fill(closed[..., None], 0.0).flatten(-2).topk(self.active, dim=-1).indices
        weights = scores.gather(-1, chosen)
        if self.router.normalise:
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        return weights * self.router.scale, chosen, scores / scores.sum(-1, keepdim=True)


class ExpertBank(nn.Module):
    """``count`` gated MLPs as three stacked tensors [E, I, D], [E, I, D], [E, D, I]."""

    def __init__(self, ff: spec.Experts, width: int) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[ff.activation]
        self.gate = nn.Parameter(torch.empty(ff.count, ff.width, width))
        self.up = nn.Parameter(torch.empty(ff.count, ff.width, width))
        self.down = nn.Parameter(torch.empty(ff.count, width, ff.width))

    def forward(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """x [N, D], weights and chosen [N, k] -> [N, D]. One pass per expert that has tokens."""
        out = torch.zeros_like(x)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=self.gate.shape[0]).tolist()
        start = 0
        for expert, count in enumerate(counts):
            if count == 0:
                continue
            slots = order[start : start + count]
            start += count
            rows = slots // chosen.shape[1]
            tokens = x[rows]
            inner = self.activation(F.linear(tokens, self.gate[expert])) * F.linear(tokens, self.up[expert])
            weighted = F.linear(inner, self.down[expert]) * weights.flatten()[slots, None].to(x.dtype)
            out = out.index_add(0, rows, weighted)
        return out


class Experts(nn.Module):
    """Routed experts, plus a shared one where the spec has it, [..., D] -> [..., D]."""

    def __init__(self, ff: spec.Experts, width: int) -> None:
        super().__init__()
        router = ff.router
        self.router: nn.Module = (
            SigmoidRouter(ff, router, width)
            if isinstance(router, spec.SigmoidRouter)
            else SoftmaxRouter(ff, router, width)
        )
        self.experts = ExpertBank(ff, width)
        shared = spec.GatedMLP(width=ff.shared_width, activation=ff.activation)
        self.shared = GatedMLP(shared, width) if ff.shared_width else None
        self.shared_gate = nn.Linear(width, 1, bias=False) if ff.shared_gate else None

    def forward(self, x: Tensor, trace: Trace) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen, probabilities = self.router(flat)
        if trace.routing is not None:
            trace.routing.append((probabilities, chosen))
        out = self.experts(flat, weights, chosen)
        if self.shared is not None:
            common = self.shared(flat, trace)
            out = out + (common if self.shared_gate is None else self.shared_gate(flat).sigmoid() * common)
        return out.view_as(x)


def balance_loss(routing: list[tuple[Tensor, Tensor]], real: Tensor | None = None) -> Tensor:
    """Load-balancing loss E·Σ f_i·P_i, averaged over layers (Fedus et al. 2021, eq. 4; top-k counts as in Mixtral).

    Args:
        routing: (probabilities [N, E], chosen [N, k]) per layer.
        real: bool [N], False at padding, which counts for nothing. All padding gives 0.

    Returns:
        Scalar: k when the use of experts is uniform, up to E when it collapses (top-1).
    """
    losses = []
    for probabilities, chosen in routing:
        count = probabilities.shape[-1]
        keep = torch.ones(len(chosen), dtype=torch.bool, device=chosen.device) if real is None else real
        total = keep.sum().clamp(min=1)
        used = F.one_hot(chosen, count).sum(1).to(probabilities.dtype)
        share = (used * keep[:, None]).sum(0) / total
        mean = (probabilities * keep[:, None]).sum(0) / total
        losses.append(count * (share * mean).sum())
    return torch.stack(losses).mean()


def usage(routing: list[tuple[Tensor, Tensor]], real: Tensor | None = None) -> Tensor:
    """How often each expert was chosen, [layers, E] int64.

    Args:
        routing: (probabilities [N, E], chosen [N, k]) per layer.
        real: bool [N], False at padding, which counts for nothing.
    """
    counts = []
    for probabilities, chosen in routing:
        kept = chosen if real is None else chosen[real]
        counts.append(torch.bincount(kept.flatten(), minlength=probabilities.shape[-1]))
    return torch.stack(counts)


def router_z_loss(logits: Tensor, real: Tensor | None = None) -> Tensor:
    """Mean squared log-partition of router logits [N, E] over real tokens (Zoph et al. 2022); 0 without any."""
    keep = torch.ones(len(logits), dtype=torch.bool, device=logits.device) if real is None else real
    return (logits.logsumexp(-1).square() * keep).sum() / keep.sum().clamp(min=1)
