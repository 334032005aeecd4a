"""Held-out scores: per document, the items of a study's statistics; and of a run's objective, with an interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch, Objective

HELD_OUT = "held out"


@dataclass(frozen=True, kw_only=True)
class Score:
    """Loss in nats per target on held-out text, with the ends of its 95 % interval over batches."""

    loss: float
    low: float
    high: float
    targets: int


def held_out(
    model: torch.nn.Module, objective: Objective, batches: Sequence[Batch], *, seed: int, device: str = "cpu"
) -> Score:
    """The objective's loss on ``batches``, the same questions at every call.

    The interval is that of a ratio of two sums over batches; let each hold texts of its own documents.
    """
    import torch

    from variorum.objectives.base import together
    from variorum.training.loop import on_device
    from variorum.training.streams import stream, stream_seed

    totals, counts = [], []
    with torch.random.fork_rng(), scoring(model):
        torch.manual_seed(stream_seed(seed, HELD_OUT))
        for i, batch in enumerate(batches):
            example = on_device(objective.corrupt(batch, stream(seed, f"{HELD_OUT}/{i}")), device)
            (whole,) = together(objective, model, [example])
            part = objective.loss(model, whole)
            totals.append(part.total.item())
            counts.append(part.count)
    loss = sum(totals) / max(1, sum(counts))
    half = _half_width(totals, counts, loss)
    return Score(loss=loss, low=loss - half, high=loss + half, targets=sum(counts))


def _half_width(totals: Sequence[float], counts: Sequence[int], ratio: float) -> float:
    """Half of the 95 % interval of Σ totals / Σ counts (Cochran 1977, section 6.4); 0 where one batch is all."""
    from scipy.special import stdtrit

    n = len(totals)
    if n < 2:
        return 0.0
    squares = sum((total - ratio * count) ** 2 for total, count in zip(totals, counts, strict=True))
    return float(stdtrit(n - 1, 0.975)) * math.sqrt(n / (n - 1) * squares) / max(1, sum(counts))


@contextmanager
def scoring(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the mode is put back, and no random stream moves."""
    import torch

    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():  # not inference_mode: tables cached here are used again in training
            yield
    finally:
        model.train(was_training)


def bits_per_byte(
    model: torch.nn.Module,
    windows: torch.Tensor,
    documents: torch.Tensor,
    token_bytes: torch.Tensor,
    *,
    batch: int = 32,
) -> torch.Tensor:
    """Bits per byte of each document, float64 [documents].

    Every window is scored on its own, so a token sees at most T tokens before it.

    Args:
        windows: int64 [N, T + 1], token ids.
        documents: int64 [N], the document of each window, numbered from 0 without gaps.
        token_bytes: int64 [V], bytes of text behind each token id.
        batch: windows per forward pass.
    """
    import torch

    from variorum.objectives.causal import Causal, next_token_losses

    count = int(documents.max()) + 1
    nats = torch.zeros(count, dtype=torch.float64)
    size = torch.zeros(count, dtype=torch.float64)
    objective, unused = Causal(), torch.Generator()
    with scoring(model):
        for start in range(0, len(windows), batch):
            example = objective.corrupt({"input_ids": windows[start : start + batch]}, unused)
            where = documents[start : start + batch]
            nats.index_add_(0, where, next_token_losses(model, example).double().sum(1))
            size.index_add_(0, where, token_bytes[example.targets].double().sum(1))
    return nats / size / math.log(2)
