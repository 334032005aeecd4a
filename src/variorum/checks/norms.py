"""What norms are computed over."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import nn

from variorum.builder import build
from variorum.checks.finding import Finding, above, equal, near
from variorum.checks.subjects import nano, words
from variorum.family import find
from variorum.parts.norms import build_norm
from variorum.spec.architecture import Init
from variorum.spec.norms import LayerNorm, RMSNorm

ROWS, WIDTH = 8, 16
DEPTHS, SEEDS = (4, 64), 3
BOTH = "the same rows in train() and in eval()"


@torch.no_grad()
def batch_norm() -> Iterator[Finding]:
    """C25, N7: BatchNorm sees its neighbours and is another function when it serves; the others are neither."""
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
    changed = x.clone()
    changed[1] += 3
    batched = nn.BatchNorm1d(WIDTH)
    how = f"{ROWS} rows of {WIDTH} channels; row 2 is another, and row 1 is looked at"
    alone = float((batched(changed)[0] - batched(x)[0]).abs().max())
    yield above("BatchNorm: another row moves this one", alone, 0.1, how)
    for name, spec in (("LayerNorm", LayerNorm(eps=1e-5)), ("RMSNorm", RMSNorm(eps=1e-6))):
        norm = build_norm(spec, WIDTH)
        moved = float((norm(changed)[0] - norm(x)[0]).abs().max())
        yield equal(f"{name}: another row moves this one by nothing", moved, 0.0, how)
        trained, served = norm.train()(x), norm.eval()(x)
        yield equal(f"{name}: training and serving are one function", bool(torch.equal(trained, served)), True, BOTH)
    apart = float((batched.train()(x) - batched.eval()(x)).abs().max())
    yield above("BatchNorm: training and serving differ", apart, 0.1, BOTH)


def norm_placement() -> Iterator[Finding]:
    """R6: at first the last layer's gradient keeps its size under post-norm, and falls as 1/√L under pre-norm."""
    for name, layout, power in (("gpt-1", "post-norm", 0.0), ("gpt2", "pre-norm", -0.5)):
        shallow, deep = (sum(_last_gradient(name, depth, seed) for seed in range(SEEDS)) for depth in DEPTHS)
        grown = math.log(deep / shallow, DEPTHS[1] / DEPTHS[0])
        how = f"{name}, {DEPTHS[0]} and {DEPTHS[1]} layers, {SEEDS} draws of weights by their fan-in"
        yield near(f"{layout}: the last layer's gradient grows as L to the", grown, power, how, within=0.15)


def _last_gradient(name: str, depth: int, seed: int) -> float:
    """The norm of the first gradient on the last matrix of the last layer."""
    small = nano(find(name)).set({"architecture.decoder.depth": depth, "architecture.init": Init(std=None)})
    model, ids = build(small, head="causal_lm", seed=seed), words(8, 16, seed=seed)
    last = model.get_parameter(f"decoder.layers.{depth - 1}.feedforward.down.weight")
    (grad,) = torch.autograd.grad(model(ids, labels=ids).loss, last)
    return float(grad.norm())
