"""What attention keeps for its gradient: tiles with an online softmax beside the definition and torch's fused kernel.

Bytes are counted, not sampled: every tensor that the forward keeps, once. Values and gradients are held against the
definition's at each length. Times are forward and backward together, in turns.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from variorum.attention.backends import BACKENDS
from variorum.attention.masks import Mask
from variorum.attention.scores import Scores
from variorum.parts.where import Where

if TYPE_CHECKING:
    from benchmarks.harness.job import Job

HEADS, CHANNELS = 8, 64
LENGTHS, QUICK = (1024, 2048, 4096), (512, 1024)
ROUNDS = 3
KINDS = {"causal": Scores(scale=CHANNELS**-0.5), "softcap": Scores(scale=CHANNELS**-0.5, softcap=50.0)}


def measure(quick: bool = False) -> list[Job]:
    """A causal text with plain and with capped scores, at every length and in every backend that takes it."""
    from benchmarks.harness.job import Job

    lengths, jobs = QUICK if quick else LENGTHS, []
    for kind, scores in KINDS.items():
        names = [name for name in BACKENDS if name != "sdpa" or scores.softcap is None]
        sides, faults, kept = [], [], {}
        for length in lengths:
            seconds = timed(names, scores, length)
            apart = difference(scores, length)
            if apart > 1e-4:
                faults.append(f"{kind}, {length} tokens: tiles differ from the definition by {apart:.1e}")
            for name in names:
                kept[name, length] = saved(name, length, scores)
                sides.append({"backend": name, "tokens": length, "kept, MB": kept[name, length] / 1e6,
                              "forward and backward, s": seconds[name]})  # fmt: skip
        step = lengths[-1] / lengths[0]
        growth = {name: math.log(kept[name, lengths[-1]] / kept[name, lengths[0]], step) for name in names}
        figures = {"growth of what is kept": growth["tiled"]}
        figures["kept over the definition"] = kept["tiled", lengths[-1]] / kept["eager", lengths[-1]]
        facts = {f"growth, {name}": value for name, value in growth.items()}
        jobs.append(Job(name=f"tiles-{kind}", figures=figures, sides=sides, facts=facts, faults=faults))
    return jobs


def inputs(length: int) -> list[Tensor]:
    """Queries, keys and values [1, H, T, d] that learn."""
    generator = torch.Generator().manual_seed(length)
    shape = (1, HEADS, length, CHANNELS)
    return [torch.randn(shape, generator=generator).requires_grad_() for _ in range(3)]


def attended(backend: str, qkv: list[Tensor], scores: Scores) -> Tensor:
    """The output of causal attention."""
    order = torch.arange(qkv[0].shape[2])[None]
    where = Where(order, order, order, order, padded=False)
    return BACKENDS[backend](*qkv, scores, Mask(causal=True), where)[0]


def saved(backend: str, length: int, scores: Scores = KINDS["causal"]) -> int:
    """Bytes that one forward keeps for its gradient."""
    storages: dict[int, int] = {}

    def keep(x: Tensor) -> Tensor:
        storages[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with saved_tensors_hooks(keep, lambda x: x):
        held = attended(backend, inputs(length), scores)
    assert held.grad_fn is not None
    return sum(storages.values())


def trained(output: Any, train: bool = True) -> None:
    """Backward from what a model returned, where it is wanted."""
    if train:
        output.last_hidden_state.sum().backward()


def largest(work: Callable[[], object]) -> int:
    """Bytes of the largest tensor that any operation of ``work`` makes."""
    with _Largest() as watch:
        work()
    return watch.bytes


class _Largest(TorchDispatchMode):
    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = [leaf.untyped_storage().nbytes() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self.bytes = max([self.bytes, *made])
        return result


def timed(names: list[str], scores: Scores, length: int) -> dict[str, float]:
    """Seconds of the fastest of a few turns of each backend."""
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        for name in names:
            qkv = inputs(length)
            begin = time.perf_counter()
            attended(name, qkv, scores).sum().backward()
            seconds[name].append(time.perf_counter() - begin)
    return {name: min(spent) for name, spent in seconds.items()}


def difference(scores: Scores, length: int) -> float:
    """The largest between tiles and the definition, of output and gradients."""
    found = []
    for name in ("eager", "tiled"):
        qkv = inputs(length)
        out = attended(name, qkv, scores)
        found.append([out.detach(), *torch.autograd.grad(out.square().sum(), qkv)])
    return max(float((a - b).abs().max()) for a, b in zip(*found, strict=True))
