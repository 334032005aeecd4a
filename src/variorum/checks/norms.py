"""What norms are computed over."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from variorum.checks.finding import Finding, above, equal
from variorum.parts.norms import build_norm
from variorum.spec.norms import LayerNorm, RMSNorm

ROWS, WIDTH = 8, 16
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
