"""Held-out scores: per document, the items of a study's statistics; and of a run's objective, with an interval."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from variorum.training.streams import CORRUPTION, stream, stream_seed

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch, Corrupted, LossSum, Objective

HELD_OUT = "held out"


@dataclass(frozen=True, kw_only=True)
class Score:
    """Loss in nats per target on held-out text, with the ends of its 95 % interval over batches.

    Attributes:
        parts: the means that a loss of several terms is made of, by name, each with the ends of its interval.
    """

    loss: float
    low: float
    high: float
    targets: int
    parts: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)

    def row(self) -> dict[str, float]:
        """The figures by their names in logs and results."""
        found = {"held_out": self.loss, "low": self.low, "high": self.high}
        for name, (mean, low, high) in self.parts.items():
            found |= {name: mean, f"{name}_low": low, f"{name}_high": high}
        return found


def held_out(
    loss: torch.nn.Module, objective: Objective, batches: Sequence[Batch], *, seed: int, device: str = "cpu"
) -> Score:
    """What ``loss``, the objective's :class:`~variorum.training.whole.Whole`, is on ``batches``: the same questions at
    every call.

    The interval is that of a ratio of two sums over batches; let each hold texts of its own documents.
    """
    found: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for _, part in answered(loss, objective, batches, seed=seed, device=device):
        for name, (total, count) in {"": (part.total, part.count), **part.parts}.items():
            found[name].append((total.item(), count))
    mean, low, high = _mean(found[""])
    parts = {name: _mean(pairs) for name, pairs in found.items() if name}
    return Score(loss=mean, low=low, high=high, targets=sum(count for _, count in found[""]), parts=parts)


def answered(
    loss: torch.nn.Module, objective: Objective, batches: Sequence[Batch], *, seed: int, device: str = "cpu"
) -> Iterator[tuple[Corrupted, LossSum]]:
    """The questions asked of each batch, the same at every call, and what ``loss`` makes of them."""
    import torch

    from variorum.objectives.base import together
    from variorum.training.loop import on_device

    with torch.random.fork_rng(), scoring(loss):
        torch.manual_seed(stream_seed(seed, HELD_OUT))
        for i, batch in enumerate(batches):
            example = on_device(objective.corrupt(batch, stream(seed, f"{HELD_OUT}/{i}")), device)
            yield example, loss(*together(objective, loss, [example]))


def by_frequency(objective: Objective, known: Iterable[Batch], asked: Sequence[Batch], *, seed: int) -> float:
    """The loss, on the questions of :func:`held_out`, of one who knows how often each answer is right in ``known``.

    Each answer is counted once more than it occurs, so that none is impossible.
    """
    import torch

    def answers(batches: Iterable[Batch], name: str) -> torch.Tensor:
        made = (objective.corrupt(batch, stream(seed, f"{name}/{i}")).targets for i, batch in enumerate(batches))
        return torch.cat([targets[targets >= 0] for targets in made])

    learned, right = answers(known, CORRUPTION), answers(asked, HELD_OUT)
    kinds = 1 + int(torch.cat([learned, right]).max())
    often = 1 + torch.bincount(learned, minlength=kinds)
    return float(math.log(often.sum()) - often.double().log()[right].mean())


def _mean(pairs: Sequence[tuple[float, int]]) -> tuple[float, float, float]:
    """Σ totals / Σ counts over batches, and its 95 % interval (Cochran 1977, section 6.4), of no width for one."""
    from scipy.special import stdtrit

    n, count = len(pairs), max(1, sum(count for _, count in pairs))
    ratio = sum(total for total, _ in pairs) / count
    if n < 2:
        return ratio, ratio, ratio
    squares = sum((total - ratio * one) ** 2 for total, one in pairs)
    half = float(stdtrit(n - 1, 0.975)) * math.sqrt(n / (n - 1) * squares) / count
    return ratio, ratio - half, ratio + half


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
