"""Texts laid end to end in one row, without padding: dense work runs on the whole stream, and what looks at neighbours
runs on runs of texts of one length, as views of the stream.

Texts sorted by length make few runs. No position hook ever sees the stream: each sees a text as if it stood alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from variorum.parts.where import Where


class Run(NamedTuple):
    """``texts`` neighbouring texts of ``length`` tokens from ``start`` on, and where their tokens stand."""

    start: int
    texts: int
    length: int
    where: Where


def stream_order(lengths: Sequence[int], device: torch.device) -> Tensor:
    """Each token's place in its own text, [1, total]."""
    return torch.cat([torch.arange(length, device=device) for length in lengths])[None]


def each(where: Where, run: Callable[..., Tensor], *streams: Tensor) -> Tensor:
    """``run(where, *texts)`` for every run of texts, joined again.

    Args:
        where: of the stream; ``run`` gets that of the texts.
        streams: [1, H, total, d] or [1, total, D]; ``run`` gets [count, H, length, d] or [count, length, D].
    """
    made = []
    for start, count, length, near in where.remember("runs", lambda: list(_runs(where))):
        texts = (_cut(stream.narrow(-2, start, count * length), count, length) for stream in streams)
        made.append(_joined(run(near, *texts)))
    return torch.cat(made, -2)


def apart(x: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The stream [1, total, D] as padded rows [B, T, D], and the order of their tokens [B, T]."""
    order = [torch.arange(length, device=x.device) for length in lengths]
    rows = pad_sequence(x[0].split(list(lengths)), batch_first=True)
    return rows, pad_sequence(order, batch_first=True, padding_value=-1)


def _cut(x: Tensor, count: int, length: int) -> Tensor:
    x = x[0].unflatten(-2, (count, length))
    return x.transpose(0, 1) if x.dim() == 4 else x


def _joined(x: Tensor) -> Tensor:
    """[count, H, length, e] -> [1, H, count · length, e]; [count, length, D] -> [1, count · length, D]"""
    return (x.transpose(0, 1).flatten(1, 2) if x.dim() == 4 else x.flatten(0, 1))[None]


def _runs(where: Where) -> Iterator[Run]:
    assert where.lengths is not None
    start = 0
    for length, same in groupby(where.lengths):
        count = len(list(same))
        yield Run(start, count, length, _near(where, start, count, length))
        start += count * length


def _near(where: Where, start: int, count: int, length: int) -> Where:
    order = torch.arange(length, device=where.q_order.device)[None]
    marks: dict[str, Any] = {"q_order": order, "k_order": order}
    for name in ("positions", "segments"):
        stream = getattr(where, f"q_{name}")
        if stream is None:
            continue
        plain = name == "positions" and stream is where.q_order
        own = order if plain else stream[:, start : start + count * length].view(count, length)
        marks |= {f"q_{name}": own, f"k_{name}": own}
    if where.everywhere is not None:
        marks["everywhere"] = where.everywhere[:, start : start + count * length].view(count, length)
    return Where(**marks, padded=False)
